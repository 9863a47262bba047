from ottla.history.rounds.identity import Identity
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.summary import advice_of, blames, greater, headline
from ottla.history.verdicts.verdict import SettingAdvice


def rebalance(
    planned: bool | None, name: str | None = "w1", *, stopped: int = 10, advice: tuple[SettingAdvice, ...] = ()
) -> StoryRebalance:
    member = None if name is None else Identity(None, None, name, None)
    return StoryRebalance(started_ms=0, planned=planned, member=member, stopped=stopped, stopped_ms=1_000, advice=advice)


def test_the_most_expensive_comes_first_and_planned_rebalances_are_not_counted() -> None:
    rebalances = [rebalance(False), rebalance(False, "w2", stopped=50), rebalance(False), rebalance(True, "w3"), rebalance(None, "w4")]
    found = blames(rebalances, [0, 1, 0, 2, 3], ["w1", "w2", "w3", "w4"])
    assert [(each.name, each.rebalances, each.stopped_seconds) for each in found] == [("w2", 1, 50.0), ("w1", 2, 20.0)]
    assert headline(rebalances, found) == "3 of 5 rebalances were not planned; w2 caused 1 of them and stopped 50 partition-seconds."


def test_a_cause_that_is_no_member_is_named_too() -> None:
    rebalances = [rebalance(False, None)]
    assert [each.name for each in blames(rebalances, [None], [])] == ["an unknown member"]


def test_the_headline_of_a_calm_group() -> None:
    avoided = StoryRebalance(started_ms=0, is_avoided=True)
    assert headline([rebalance(True)], []) == "1 rebalance, all of them planned."
    assert headline([rebalance(True), rebalance(None)], []) == "2 rebalances, none of them is known to be unplanned."
    assert headline([], []) == "The evidence holds no rebalance of this group."
    assert headline([rebalance(True), avoided], []).endswith("Static membership avoided 1 rebalance.")


def setting(name: str, value: str | None = "1") -> SettingAdvice:
    return SettingAdvice(name, value, "why")


def test_advice_is_counted_once_a_rebalance_and_the_most_useful_comes_first() -> None:
    a, b = setting("a"), setting("b")
    found = advice_of([rebalance(False, advice=(a,)), rebalance(False, advice=(b,), stopped=90), rebalance(False, advice=(a, b))])
    assert [(each.advice.setting, each.rebalances, each.stopped_seconds) for each in found] == [("b", 2, 100.0), ("a", 2, 20.0)]


def test_the_greatest_value_of_a_setting_is_advised() -> None:
    values = ["45000", "90000", "50000", None]
    [found] = advice_of([rebalance(False, advice=(setting("session.timeout.ms", value),)) for value in values])
    assert (found.advice.value, found.rebalances) == ("90000", 4)
    assert greater(setting("a", "on"), setting("a", "5")).value == "5"
    assert greater(setting("a", "5"), setting("a", None)).value == "5"
