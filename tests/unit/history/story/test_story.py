"""The story of one group."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.events import EventMember
from ottla.history.processes import Identity, Processes
from ottla.history.sources.evidence import Evidence, Kind, Source
from ottla.history.story.arrays import plain, unpack
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.story import GAP_MS, DeploymentSpan, Presence, StoryExtras, advice_of, blames, bursts, greater, headline, story
from ottla.history.verdicts.verdict import SettingAdvice

NAMES = "abc"
PARTITIONS = 4


def member(name: str, start: int, partitions: list[int]) -> EventMember:
    return EventMember(
        member_id=f"{name}-{start}",
        instance_id=None,
        client_id=name,
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=2,
        assignment={"t": partitions} if partitions else {},
    )


def assigned(generation: int, owners: list[str | None], start: int = 0, **fields: Any) -> Evidence:
    """The assignment of one generation: an owner for each partition."""
    names = sorted({name for name in owners if name is not None})
    members = tuple(member(name, start, [at for at, owner in enumerate(owners) if owner == name]) for name in names)
    kind = Kind.SYNC_COMPLETED if members else Kind.EMPTIED
    given_fields = {"kind": kind, "at_ms": generation * 1_000, "generation": generation, "members": members} | fields
    return Evidence(source=Source.GROUP_EVENTS, clock="b", group="g", **given_fields)


def owners_of(document: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The owner's name of each partition after each assignment, read as a page does."""
    arrays = document["assignments"]
    names = [f"{topic}-{partition}" for topic, partitions in document["topics"] for partition in partitions]
    current, read = [arrays["no_owner"]] * len(names), 0
    for index, whole in enumerate(arrays["is_whole"]):
        owners = arrays["owners"][arrays["starts"][index] : arrays["starts"][index + 1]]
        places = range(len(names)) if whole else arrays["places"][read : read + len(owners)]
        read += 0 if whole else len(owners)
        for place, owner in zip(places, owners, strict=True):
            current[place] = owner
        yield {name: document["members"][row]["name"] for name, row in zip(names, current, strict=True) if row != arrays["no_owner"]}


owners = st.lists(st.none() | st.sampled_from(NAMES), min_size=PARTITIONS, max_size=PARTITIONS)


@given(st.lists(st.tuples(owners, st.integers(0, 1)), min_size=1, max_size=8))
def test_the_owners_of_every_assignment_are_those_of_the_evidence(generations: list[tuple[list[str | None], int]]) -> None:
    evidence = [assigned(number, owner, start) for number, (owner, start) in enumerate(generations, 1)]
    told = story("g", evidence, [])
    wanted = [{f"t-{at}": name for at, name in enumerate(owner) if name is not None} for owner, _ in generations]
    for document in (told.to_dict(), plain(unpack(told.to_bytes()))):
        assert list(owners_of(document)) == wanted


def test_it_ends_stable_or_empty_and_covers_all_its_evidence() -> None:
    told = story("g", [assigned(1, ["a", "b"]), assigned(2, ["a", "a"])], []).document
    assert (told["state"], told["facts"]) == ("Stable, generation 2", "2 members · 2 partitions · 0 rebalances")
    assert told["from_ms"] < 1_000 < 2_000 < told["to_ms"]
    assert story("g", [assigned(1, ["a"]), assigned(2, [None])], []).document["state"] == "Empty"
    assert story("g", [], []).document["state"] == "Unknown"


def test_time_without_members_is_not_drawn_and_time_with_them_is() -> None:
    loaded = assigned(60, [None], kind=Kind.LOADED)
    assert story("g", [assigned(1, ["a"]), assigned(2, [None]), loaded], []).document["to_ms"] < 4_000
    assert story("g", [assigned(1, ["a"]), replace(loaded, kind=Kind.TRIGGER, members=None)], []).document["to_ms"] > 60_000


def test_silences_of_verdicts_are_added_to_those_of_the_source() -> None:
    lost = StoryRebalance(
        started_ms=2_000, silent_ms=500, member=Identity("a-0", None, None, None), advice=(SettingAdvice("s", "9", "why"),), planned=False
    )
    document = story("g", [assigned(1, ["a"])], [lost], StoryExtras(clocks=["one clock is ahead"])).document
    assert (document["silent"], document["clocks"]) == ([[0, 1_500, 2_000]], ["one clock is ahead"])
    assert document["ledger"] == [[0, "a", 1, 0.0, "s = 9"]]
    assert document["advice"] == [["Set s to 9. why", 1, 0.0]]


def test_namesakes_get_numbers() -> None:
    members = tuple(replace(member("a", start, [start]), client_host=f"/h{start}") for start in range(2))
    told = story("g", [replace(assigned(1, ["a"]), members=members)], [])
    assert [each["name"] for each in told.document["members"]] == ["a #1", "a #2"]


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
    refused = StoryRebalance(started_ms=0, is_avoided=True, is_refused=True)
    assert headline([rebalance(True), refused], []) == "1 rebalance, all of them planned. 1 join was refused."


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


def rebalance_at(started_ms: int, *, planned: bool = False) -> StoryRebalance:
    return StoryRebalance(started_ms=started_ms, join_ms=1_000, planned=planned, stopped=4, stopped_ms=500)


NEAR = [rebalance_at(1_000_000 + at * GAP_MS) for at in range(3)]


def test_rebalances_near_each_other_are_a_burst_with_its_cost() -> None:
    [burst] = bursts([rebalance_at(0), *NEAR, rebalance_at(9_000_000)])
    assert (burst.from_ms, burst.to_ms, burst.unplanned, burst.is_deployment) == (1_000_000, 1_000_000 + 2 * GAP_MS + 1_000, 3, False)
    assert burst.sentence == "A burst: 3 rebalances in 4 min 1 s, 3 of them not planned, 6 partition-seconds stopped."


def test_a_deployment_is_named_and_is_no_burst_too() -> None:
    span = DeploymentSpan(1_000_000, 1_300_000, 2, 3, 6.0)
    [found] = bursts([rebalance_at(0), *NEAR], [span])
    assert found.is_deployment
    assert found.sentence == "A rolling deployment of 2 clients: 3 rebalances in 5 min, 6 partition-seconds stopped."
    assert bursts([], [span._replace(stopped_seconds=None)])[0].sentence.endswith("3 rebalances in 5 min.")


def test_what_holds_everything_or_little_says_nothing_new() -> None:
    assert bursts([]) == []
    assert bursts(NEAR) == []
    assert bursts([rebalance_at(0), *NEAR[:2]]) == []


def present_member(name: str) -> EventMember:
    return EventMember(
        member_id=f"{name}-1", instance_id=None, client_id=name, client_host="/h", session_timeout_ms=1, rebalance_timeout_ms=2
    )


def evidence(at_ms: int, name: str, **fields: Any) -> Evidence:
    return Evidence(
        at_ms=at_ms, source=Source.GROUP_EVENTS, clock="b", group="g", member_id=f"{name}-1", client_id=name, client_host="/h", **fields
    )


class World:
    """Presence with the members of a group, named by letters."""

    def __init__(self, *, lists_members: bool = True) -> None:
        self.processes = Processes()
        self.presence = Presence(self.processes, lists_members=lists_members)

    def members(self, at_ms: int, names: str) -> None:
        members = [present_member(name) for name in names]
        self.presence.set_members(self.processes.rows_of(members, at_ms), [each.member_id for each in members], at_ms)

    @property
    def present(self) -> list[list[tuple[int, int | None]]]:
        return [process.present for process in self.processes.rows]


def test_a_member_is_there_from_its_request_until_it_leaves() -> None:
    world = World()
    world.presence.note(evidence(5, "a", kind=Kind.TRIGGER, candidates=("JOIN_NEW", "COLD_START")))
    world.members(10, "a")
    world.presence.note(evidence(40, "a", kind=Kind.MEMBER_LEFT))
    world.members(50, "b")
    world.presence.end()
    assert world.present == [[(5, 40)], [(50, None)]]


def test_a_silent_member_is_known_to_have_been_silent() -> None:
    world = World()
    world.members(10, "ab")
    world.presence.note(evidence(100, "a", kind=Kind.TRIGGER, trigger="EXPIRE_HEARTBEAT", evidence={"last_heartbeat_age_ms": 60}))
    world.members(120, "b")
    world.presence.note(evidence(130, "b", kind=Kind.TRIGGER, candidates=("LEAVE_CLOSE",), evidence={"last_heartbeat_age_ms": 8}))
    assert world.presence.silent == [(0, 40, 100)]
    assert world.present[0] == [(10, 100)]


def test_without_a_line_of_its_own_a_member_is_gone_with_the_generation_that_lacks_it() -> None:
    world = World()
    world.members(10, "ab")
    world.members(20, "b")
    world.members(30, "ab")
    world.presence.end()
    assert world.present == [[(10, 20), (30, None)], [(10, None)]]


def test_without_lists_members_are_known_by_the_lines_about_them() -> None:
    world = World(lists_members=False)
    for at_ms, name in ((1, "a"), (2, "b"), (3, "a")):
        world.presence.note(evidence(at_ms, name, kind=Kind.MEMBER_JOINED))
    world.presence.note(evidence(9, "a", kind=Kind.MEMBER_REMOVED))
    world.presence.end()
    assert world.present == [[(1, 9)], [(2, None)]]
    assert [process.name for process in world.processes.rows] == ["a", "b"]


def test_lines_about_strangers_change_nothing() -> None:
    world = World()
    world.presence.note(evidence(1, "x", kind=Kind.MEMBER_LEFT))
    world.members(10, "a")
    world.presence.end()
    assert world.present == [[(10, None)]]
