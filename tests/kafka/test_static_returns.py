"""A static member that comes back, without its member id, before it has sent SyncGroup: the same with both brokers, timers included.

While the leader's assignment is not there, the group rebalances at once. In a Stable group the member gets its assignment, and its old id
still is one that did not sync: the group rebalances when the rebalance timeout is over (ClassicGroup.replaceStaticMember).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.waiting import wait_until
from tests.support.clients.raw_member import RawMember

pytestmark = pytest.mark.kafka

REBALANCE_MS = 2_500
EARLY_MS = 100
"""A broker's timers may count from a little before the response that a test has seen."""

Facts = list[Any]


class Party:
    """A leader, and a static follower `gate-1`, both in generation 2; the leader has joined `since` then."""

    def __init__(self, servers: str, group: str, opened: ExitStack) -> None:
        self._servers, self._group, self._opened = servers, group, opened
        self.pool = opened.enter_context(ThreadPoolExecutor(1))
        self.leader, self.follower = self.member(None), self.member("gate-1")
        find = partial(self.leader.client.call, ApiKey.FIND_COORDINATOR, 0, key=group)
        wait_until(lambda: find().error_code == self.join(self.leader).error_code == ErrorCode.NONE, "a coordinator", seconds=30)
        self.leader.sync()
        joining = self.pool.submit(self.join, self.follower)
        wait_until(lambda: self.leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "the follower to join")
        self.since = time.monotonic()
        self.join(self.leader)
        joining.result()
        assert self.leader.generation == self.follower.generation == 2

    def member(self, instance_id: str | None) -> RawMember:
        return self._opened.enter_context(closing(RawMember(self._servers, self._group, instance_id=instance_id)))

    @staticmethod
    def join(member: RawMember) -> Any:
        return member.join(rebalance_timeout_ms=REBALANCE_MS)

    def joined(self, answer: Any) -> Facts:
        """What a JoinGroup response says, without drawn ids."""
        leads = answer.leader == answer.member_id
        return [int(answer.error_code), int(answer.generation_id), leads, [each.group_instance_id for each in answer.members]]

    def timeout_is_over(self) -> bool:
        return time.monotonic() - self.since >= (REBALANCE_MS - EARLY_MS) / 1000

    def rebalances_in_time(self) -> Facts:
        """The leader's Heartbeat until it says something else than that all is well, and whether the rebalance timeout was over then."""
        error = wait_until(self.leader.heartbeat, "a rebalance")
        return [error, self.timeout_is_over()]


def while_the_assignment_is_not_there(party: Party) -> Facts:
    back = party.member("gate-1")
    party.since = time.monotonic()
    joining = party.pool.submit(party.join, back)
    facts = party.rebalances_in_time()[:1]
    facts += [party.follower.heartbeat(), party.follower.sync()]
    # The leader does not join again: it is removed when the rebalance timeout is over.
    facts += [party.joined(joining.result()), party.timeout_is_over()]
    return [*facts, party.leader.heartbeat(), back.sync(), back.heartbeat()]


def in_a_stable_group(party: Party) -> Facts:
    facts: Facts = [party.leader.sync({party.follower.member_id: b"all"})]
    back = party.member("gate-1")
    facts += [party.joined(party.join(back)), back.sync(), back.heartbeat(), party.follower.heartbeat()]
    facts += party.rebalances_in_time()
    joining = party.pool.submit(party.join, back)
    return [*facts, party.joined(party.join(party.leader))[:3], party.joined(joining.result())]


def in_a_stable_group_and_does_not_sync(party: Party) -> Facts:
    facts: Facts = [party.leader.sync({party.follower.member_id: b"all"})]
    back = party.member("gate-1")
    facts += [party.joined(party.join(back)), back.heartbeat()]
    return [*facts, *party.rebalances_in_time(), back.heartbeat(), back.sync()]


@pytest.fixture(scope="module")
def facts(reference: Any, our_broker: str) -> Iterator[Callable[[Callable[[Party], Facts]], Mapping[str, Facts]]]:
    """What each story comes to with both brokers; they run at the same time, since they wait."""
    brokers = {"ottla": our_broker, "apache-kafka": reference.shared().bootstrap_servers}
    stories = (while_the_assignment_is_not_there, in_a_stable_group, in_a_stable_group_and_does_not_sync)

    def tell(story: Callable[[Party], Facts], servers: str) -> Facts:
        with ExitStack() as opened:
            return story(Party(servers, f"static-{story.__name__}", opened))

    with ThreadPoolExecutor(len(stories) * len(brokers)) as pool:
        told = {(story, kind): pool.submit(tell, story, servers) for story in stories for kind, servers in brokers.items()}
        yield lambda story: {kind: told[story, kind].result() for kind in brokers}


IN_PROGRESS, UNKNOWN, FENCED = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID


def test_a_rebalance_begins_and_waits_for_the_leader_until_its_timeout(facts: Any) -> None:
    said = facts(while_the_assignment_is_not_there)
    assert said["ottla"] == said["apache-kafka"]
    assert said["ottla"][:2] == [IN_PROGRESS, FENCED]
    assert said["ottla"][3:] == [[0, 3, True, ["gate-1"]], True, UNKNOWN, (0, b""), 0]


def test_the_old_id_is_missed_when_the_rebalance_timeout_is_over(facts: Any) -> None:
    said = facts(in_a_stable_group)
    assert said["ottla"] == said["apache-kafka"]
    assert said["ottla"][2:7] == [(0, b"all"), 0, FENCED, IN_PROGRESS, True]


def test_a_member_that_does_not_sync_after_its_return_stays_until_the_rebalance(facts: Any) -> None:
    said = facts(in_a_stable_group_and_does_not_sync)
    assert said["ottla"] == said["apache-kafka"]
    assert said["ottla"][3:5] == [IN_PROGRESS, True]
