from ottla.core.diagnosis.rounds.identity import Identity
from ottla.core.model import EventMember
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.histories import Histories

A = Identity("a-1", None, "a", "/h")


def test_a_process_that_ended_starts_again_under_its_name() -> None:
    histories = Histories()
    first = histories.start(A, 0)
    first.add(Action(at_ms=5, kind=ActionKind.CLOSE))
    first.is_present = False
    again = histories.start(Identity("a-2", None, "a", "/h"), 9)
    assert again is first is histories.of(Identity("a-2")) is histories.of(A)
    assert [action.at_ms for action in first.actions] == [0, 5, 9]
    assert [histories.has(each) for each in ("a-1", "a-2", "a-3", None)] == [True, True, False, False]


def test_a_second_process_of_the_same_name_is_another_one() -> None:
    histories = Histories()
    histories.start(A, 0)
    histories.start(Identity("a-2", None, "a", "/h"), 9)
    histories.start(Identity("b-1", "i", "a", "/h"), 9)
    histories.start(Identity("c-1", None, "a#2", "/h"), 9)
    assert [name for name, _ in histories.named()] == ["a", "a#2", "i", "a#2#2"]


def test_a_static_member_is_found_by_its_instance_id() -> None:
    histories = Histories()
    first = histories.start(Identity("x", "i", "a", "/h"), 0)
    assert histories.of(Identity("y", "i")) is first


def test_two_are_merged_when_they_are_one() -> None:
    histories = Histories()
    first, second = histories.start(A, 0), histories.start(Identity("a-2", None, "a", "/h"), 9)
    histories.merge(first, second)
    histories.merge(first, first)
    assert histories.all == [first]
    assert histories.of(Identity("a-2")) is first
    assert [action.at_ms for action in first.actions] == [0, 9]


def test_timeouts_come_from_lists_and_defaults_stand_in() -> None:
    histories = Histories()
    history = histories.start(A, 0)
    defaults = {"session_timeout_ms": 1, "rebalance_timeout_ms": 2, "topics": frozenset("t")}
    assert history.process("a", **defaults).session_timeout_ms == 1  # type: ignore[arg-type]
    histories.learn(
        EventMember(
            member_id="a-1", instance_id=None, client_id="a", client_host="/h", session_timeout_ms=6_000, rebalance_timeout_ms=8_000
        )
    )
    process = history.process("a", **defaults)  # type: ignore[arg-type]
    assert (process.session_timeout_ms, process.rebalance_timeout_ms, process.client_host) == (6_000, 8_000, "/h")
