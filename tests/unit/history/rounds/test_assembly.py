from ottla.history.group_history import group_histories
from ottla.history.sources.model import Kind
from tests.support.kit.evidence import EvidenceLog


def test_each_group_has_its_own_rebalances() -> None:
    one, two = EvidenceLog(group="one"), EvidenceLog(group="two", clock="other")
    one.join("a", 0)
    one.rebalance(1)
    two.join("b", 4)
    two.rebalance(5)
    two.add(Kind.DELETED, 5)
    histories = group_histories([*two.lines, *one.lines])
    assert {group: [(each.generation, each.clock) for each in history.rebalances] for group, history in histories.items()} == {
        "two": [(5, "other")],
        "one": [(1, "broker-log")],
    }
