from ottla.core.diagnosis.evidence.model import Kind
from ottla.core.diagnosis.rounds.assembly import clocks_of, rounds_of_groups
from ottla.testing.kit.evidence import EvidenceLog


def test_each_group_has_its_own_rounds() -> None:
    one, two = EvidenceLog(group="one"), EvidenceLog(group="two", clock="other")
    one.join("a", 0)
    one.rebalance(1)
    two.join("b", 4)
    two.rebalance(5)
    two.add(Kind.DELETED, 5)
    rounds = rounds_of_groups([*two.lines, *one.lines])
    assert {group: [each.generation for each in of_group] for group, of_group in rounds.items()} == {"two": [5], "one": [1]}
    assert clocks_of(rounds) == {"broker-log", "other"}
