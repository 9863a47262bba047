"""S1.5 and S1.6 on the wire: the five states of a group as its members and its watchers see them, and the session timeouts it accepts."""

import struct
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from ottla.testing.raw_client import RawClient

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, DELETE_GROUPS = (
    8,
    10,
    11,
    12,
    13,
    14,
    15,
    42,
)
NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT, REBALANCE_IN_PROGRESS = 0, 22, 25, 26, 27
MEMBER_ID_REQUIRED, GROUP_ID_NOT_FOUND = 79, 69
NOT_YET = {14, 15, 16}


class Member:
    """One member of a group on a connection of its own, with one request per method."""

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self.client = RawClient(bootstrap_servers, client_id="raw-member")
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.leader = ""

    def join(self, session_timeout_ms: int = 10_000) -> int:
        """Join (twice when the broker wants to name the member first); gives the error code."""
        answer = self._join(session_timeout_ms)
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self._join(session_timeout_ms)
        self.member_id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
        return int(answer.error_code)

    def _join(self, session_timeout_ms: int) -> Any:
        subscription = struct.pack(">hi", 0, 1) + struct.pack(">h", 7) + b"flights" + struct.pack(">i", -1)
        return self.client.call(
            JOIN_GROUP,
            5,
            group_id=self.group,
            session_timeout=session_timeout_ms,
            rebalance_timeout=10_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": subscription}],
        )

    def _named(self) -> dict[str, Any]:
        return {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}

    def sync(self, plan: dict[str, bytes] | None = None) -> tuple[int, bytes]:
        """The error code and this member's part of the plan; the leader sends the plan."""
        assignments = [{"member_id": member_id, "assignment": part} for member_id, part in (plan or {}).items()]
        answer = self.client.call(SYNC_GROUP, 3, **self._named(), assignments=assignments)
        return int(answer.error_code), bytes(answer.assignment)

    def heartbeat(self) -> int:
        return int(self.client.call(HEARTBEAT, 3, **self._named()).error_code)

    def leave(self) -> int:
        return int(self.client.call(LEAVE_GROUP, 2, group_id=self.group, member_id=self.member_id).error_code)

    def commit(self, topic: str, generation: int) -> int:
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]}]
        values = {"group_id": self.group, "generation_id_or_member_epoch": generation, "member_id": self.member_id, "topics": topics}
        return int(self.client.call(OFFSET_COMMIT, 7, **values).topics[0].partitions[0].error_code)


@pytest.fixture
def new_member(kafka_broker: Any, raw_client: RawClient, wait_until: Callable[..., None]) -> Any:
    """`new_member(group)` makes a member (nothing is sent yet); the group's coordinator is ready."""
    made: list[Member] = []

    def make(group: str) -> Member:
        wait_until(lambda: raw_client.call(FIND_COORDINATOR, 0, key=group).error_code == NONE, "a coordinator")
        wait_until(lambda: describe(raw_client, group).error_code not in NOT_YET, "a loaded coordinator")
        made.append(Member(kafka_broker.bootstrap_servers, group))
        return made[-1]

    yield make
    for member in made:
        member.client.close()


@pytest.fixture
def background() -> Any:
    """Runs a request that waits for others in a thread: `background(member.join)` gives a Future."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


def describe(client: RawClient, group: str) -> Any:
    (described,) = client.call(DESCRIBE_GROUPS, 5, groups=[group]).groups
    return described


def state(client: RawClient, group: str) -> str:
    return str(describe(client, group).group_state)


def test_s1_5_a_group_passes_through_five_states(
    raw_client: RawClient,
    new_member: Callable[[str], Member],
    background: Callable[..., Future[Any]],
    unique_name: Callable[[str], str],
    wait_until: Callable[..., None],
) -> None:
    group = unique_name("group")
    first, second = new_member(group), new_member(group)
    assert state(raw_client, group) == "Dead", "nobody has heard of it"

    assert first.join() == NONE
    assert state(raw_client, group) == "CompletingRebalance", "the members are known, the plan is not"
    assert (first.generation, first.leader) == (1, first.member_id)
    assert first.sync({first.member_id: b"all"}) == (NONE, b"all")
    assert state(raw_client, group) == "Stable"
    assert first.heartbeat() == NONE

    joining = background(second.join)
    wait_until(lambda: state(raw_client, group) == "PreparingRebalance", "the second member starts a rebalance")
    assert first.heartbeat() == REBALANCE_IN_PROGRESS
    assert first.join() == NONE
    assert joining.result(10) == NONE
    assert (first.generation, second.generation) == (2, 2), "each rebalance raises the generation by one"
    follower, leader = (first, second) if second.leader == second.member_id else (second, first)
    waiting = background(follower.sync)
    assert leader.sync({leader.member_id: b"mine", follower.member_id: b"yours"}) == (NONE, b"mine")
    assert waiting.result(10) == (NONE, b"yours"), "each member gets its own part alone"
    assert state(raw_client, group) == "Stable"

    assert second.leave() == NONE
    assert state(raw_client, group) == "PreparingRebalance"
    assert first.leave() == NONE
    wait_until(lambda: state(raw_client, group) == "Empty", "the last member is gone")
    (deleted,) = raw_client.call(DELETE_GROUPS, 1, groups_names=[group]).results
    assert deleted.error_code == NONE
    assert state(raw_client, group) == "Dead"


def test_s1_5_commits_of_an_older_generation_are_refused(
    raw_client: RawClient,
    new_member: Callable[[str], Member],
    unique_name: Callable[[str], str],
    group_commit: Callable[..., int],
) -> None:
    group, topic = unique_name("group"), unique_name("topic")
    group_commit(unique_name("another-group"), topic, 0, 0)
    member = new_member(group)
    for generation in (1, 2, 3):
        assert member.join() == NONE
        assert member.generation == generation
        assert member.sync({member.member_id: b"all"}) == (NONE, b"all")
        assert member.commit(topic, generation) == NONE
        assert member.commit(topic, generation - 1) == ILLEGAL_GENERATION
        assert member.commit(topic, generation + 1) == ILLEGAL_GENERATION
    stranger = new_member(group)
    stranger.member_id = "nobody"
    assert stranger.commit(topic, 3) == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 5_999, 1_800_001])
def test_s1_6_a_session_timeout_out_of_bounds_is_refused(
    new_member: Callable[[str], Member], unique_name: Callable[[str], str], session_timeout_ms: int
) -> None:
    assert new_member(unique_name("group")).join(session_timeout_ms) == INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_s1_6_a_session_timeout_at_the_bounds_is_accepted(
    new_member: Callable[[str], Member], unique_name: Callable[[str], str], session_timeout_ms: int
) -> None:
    member = new_member(unique_name("group"))
    assert member.join(session_timeout_ms) == NONE
    assert member.leave() == NONE


def test_s1_6_a_client_hears_of_its_bad_session_timeout(kafka_broker: Any, unique_name: Callable[[str], str], wait_until: Any) -> None:
    from kafka.errors import InvalidSessionTimeoutError

    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        unique_name("topic"),
        bootstrap_servers=kafka_broker.bootstrap_servers,
        group_id=unique_name("group"),
        session_timeout_ms=5_000,
        heartbeat_interval_ms=200,
    )
    with pytest.raises(InvalidSessionTimeoutError):
        wait_until(lambda: False, "the refusal", lambda: consumer.poll(timeout_ms=100))
    consumer.close()
