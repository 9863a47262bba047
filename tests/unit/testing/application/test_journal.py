"""The events that a broker under test keeps."""

from ottla.groups.events import GroupEvent
from ottla.testing.application.journal import EVENTS_MAX, Journal


def event(group: str, generation: int) -> GroupEvent:
    return GroupEvent(at_ms=0, group=group, kind="emptied", generation=generation, state_from="Stable", state_to="Empty")


def test_events_are_kept_by_group_and_passed_on() -> None:
    passed: list[GroupEvent] = []
    journal = Journal(passed.append)
    for group, generation in (("a", 1), ("b", 1), ("a", 2)):
        journal.add(event(group, generation))
    assert journal.of_group("a") == (event("a", 1), event("a", 2))
    assert journal.of_group("none") == ()
    assert passed == [event("a", 1), event("b", 1), event("a", 2)]


def test_the_last_events_of_a_group_are_kept() -> None:
    journal = Journal(None)
    for generation in range(EVENTS_MAX + 1):
        journal.add(event("a", generation))
    assert [each.generation for each in journal.of_group("a")] == list(range(1, EVENTS_MAX + 1))
