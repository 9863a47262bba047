"""Simulated members behave like Kafka's clients, here on a network that the test controls."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import Request
from ottla.core.groups.effects import CommitResult, HeartbeatResult, JoinMember, JoinResult, Result, SyncResult
from ottla.core.wire.consumer_protocol import parse_assignment
from ottla.testing.kit.consumer_protocol import encode_assignment, encode_subscription
from ottla.testing.simulation.member import MemberConfig, SimulatedMember

E = ErrorCode


class Hands:
    """A network that does nothing by itself."""

    def __init__(self) -> None:
        self.partitions: Mapping[str, int] = {"flights": 2}
        self.sent: list[Any] = []
        self.answers: list[Callable[[Result], None]] = []
        self.due: list[tuple[int, Callable[[], None]]] = []
        self.numbers = 0

    def send(self, member: SimulatedMember, request: Callable[[int], Request], answered: Callable[[Result], None]) -> None:
        self.sent.append(request(len(self.sent)))
        self.answers.append(answered)

    def later(self, delay_ms: int, act: Callable[[], None], member: SimulatedMember | None = None) -> None:
        self.due.append((delay_ms, act))

    def next_offset(self) -> int:
        self.numbers += 1
        return self.numbers

    def next_member_id(self, name: str) -> str:
        return f"{name}-new"

    def last(self) -> str:
        return type(self.sent[-1]).__name__


CONFIG = MemberConfig(
    name="c", instance_id=None, session_timeout_ms=6_000, rebalance_timeout_ms=8_000, heartbeat_ms=2_000, is_old_client=False
)
ME = JoinMember(member_id="c-1", instance_id=None, metadata=encode_subscription(["flights"]))
JOINED = JoinResult(error=E.NONE, member_id="c-1", generation=3, protocol_name="range", leader="c-1", members=(ME,))
ASSIGNMENT = encode_assignment({"flights": [0, 1]})


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def member(hands: Hands) -> SimulatedMember:
    member = SimulatedMember(CONFIG, hands, ("flights",))
    member.join()
    return member


def owning(hands: Hands, member: SimulatedMember) -> None:
    hands.answers[-1](JOINED)
    hands.answers[-1](SyncResult(error=E.NONE, assignment=ASSIGNMENT))


def send_heartbeat(hands: Hands) -> None:
    hands.due[-1][1]()


def test_it_joins_with_the_id_that_it_gets(hands: Hands, member: SimulatedMember) -> None:
    assert (hands.sent[0].member_id, hands.sent[0].new_member_id) == ("", "c-new")
    hands.answers[0](JoinResult(error=E.MEMBER_ID_REQUIRED, member_id="c-1"))
    assert (hands.last(), hands.sent[-1].member_id) == ("JoinGroup", "c-1")


def test_a_leader_sends_assignments_and_a_follower_does_not(hands: Hands, member: SimulatedMember) -> None:
    hands.answers[0](JOINED)
    assert {member_id: parse_assignment(part) for member_id, part in hands.sent[-1].assignments} == {"c-1": {"flights": (0, 1)}}
    member.join()
    hands.answers[-1](JoinResult(error=E.NONE, member_id="c-1", generation=4, leader="other"))
    assert hands.sent[-1].assignments == ()
    member.join()
    skipping = JoinResult(error=E.NONE, member_id="c-1", generation=4, leader="c-1", skip_assignment=True)
    hands.answers[-1](skipping)
    assert hands.sent[-1].assignments == ()


def test_it_owns_its_assignment_and_sends_heartbeats(hands: Hands, member: SimulatedMember) -> None:
    owning(hands, member)
    assert (member.phase, member.owned) == ("owning", {"flights": (0, 1)})
    send_heartbeat(hands)
    assert (hands.last(), hands.sent[-1].generation) == ("Heartbeat", 3)


def test_it_commits_now_and_then(hands: Hands, member: SimulatedMember) -> None:
    owning(hands, member)
    for _ in range(2):
        send_heartbeat(hands)
        hands.answers[-1](HeartbeatResult(error=E.NONE))
    assert hands.last() == "OffsetCommit"
    hands.answers[-1](CommitResult(errors=(E.NONE, E.NONE)))
    send_heartbeat(hands)
    assert hands.last() == "Heartbeat"


@pytest.mark.parametrize(("error", "member_id"), [(E.REBALANCE_IN_PROGRESS, "c-1"), (E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, "")])
def test_a_rebalance_makes_a_member_join_again(hands: Hands, member: SimulatedMember, error: ErrorCode, member_id: str) -> None:
    owning(hands, member)
    send_heartbeat(hands)
    hands.answers[-1](HeartbeatResult(error=error))
    assert (hands.last(), hands.sent[-1].member_id) == ("JoinGroup", member_id)
    assert member.owned == {}


def test_a_fenced_process_ends(hands: Hands, member: SimulatedMember) -> None:
    owning(hands, member)
    send_heartbeat(hands)
    hands.answers[-1](HeartbeatResult(error=E.FENCED_INSTANCE_ID))
    assert not member.is_alive


def test_a_timeout_makes_a_member_join_again(hands: Hands, member: SimulatedMember) -> None:
    hands.due[0][1]()
    assert [type(request).__name__ for request in hands.sent] == ["JoinGroup", "JoinGroup"]
    hands.answers[0](JOINED)
    assert len(hands.sent) == 2, "a late response is ignored"


def test_a_coordinator_that_cannot_serve_is_asked_again_later(hands: Hands, member: SimulatedMember) -> None:
    hands.answers[0](JoinResult(error=E.COORDINATOR_LOAD_IN_PROGRESS, member_id=""))
    assert len(hands.sent) == 1
    hands.due[-1][1]()
    assert hands.last() == "JoinGroup"


def test_it_leaves_with_a_word_and_dies_without(hands: Hands, member: SimulatedMember) -> None:
    owning(hands, member)
    member.leave()
    assert hands.last() == "LeaveGroup"
    assert not member.is_alive
    sent = len(hands.sent)
    member.crash()
    assert len(hands.sent) == sent
