"""What the application's thread does for a rebalance: commit, call the listener, give up partitions, take over others.

It runs step by step while the application polls, since callbacks run there and a commit may have to be waited for. Sources: Kafka's
`ConsumerCoordinator.onJoinPrepare` and `onJoinComplete`; KIP-429 (cooperative rebalances); `AbstractMembershipManager.maybeReconcile`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.client.engine.commits import Commit, Commits
from ottla.client.engine.subscriptions import Subscriptions
from ottla.client.engine.values import ConsumerSettings
from ottla.client.membership.consumer_membership import ConsumerMembership
from ottla.client.membership.group_membership import GroupMembership
from ottla.client.membership.membership import Membership
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import Partitions

ASSIGNED, REVOKED, LOST = "assigned", "revoked", "lost"
_NOT_SUBSCRIBED: Final = "received assignment does not match the current subscription"
_MUST_REVOKE: Final = "need to revoke partitions and re-join"


class Callback(NamedTuple):
    """Call the application's listener: `kind` is ASSIGNED, REVOKED or LOST. The partitions are sorted."""

    kind: str
    partitions: tuple[TopicPartition, ...]


class Rebalances(ABC):
    """The steps of one consumer. `is_active`: a step is not over, so no records are handed out."""

    def __init__(self, settings: ConsumerSettings, membership: GroupMembership, subscriptions: Subscriptions, commits: Commits) -> None:
        self._settings = settings
        self._membership = membership
        self._subscriptions = subscriptions
        self._commits = commits
        self._steps: Iterator[Callback | Commit] | None = None
        self._awaited: Commit | None = None

    @property
    def is_active(self) -> bool:
        """Whether a step is not over."""
        return self._steps is not None

    @property
    def is_due(self) -> bool:
        """Whether there is a step to take, or one is not over."""
        return self._steps is not None or self._membership.assigned is not None or self._membership.must_prepare

    def next_callback(self, now_ms: float) -> Callback | None:
        """Take the next steps, up to a callback that has to run before the following call; None when there is nothing to do now."""
        while True:
            if self._awaited is not None and not self._awaited.is_done:
                return None
            self._awaited = None
            if self._steps is None:
                if self._membership.assigned is not None:
                    self._steps = self._complete(now_ms)
                elif self._membership.must_prepare:
                    self._steps = self._prepare(now_ms)
                else:
                    return None
            step = next(self._steps, None)
            if isinstance(step, Callback):
                return step
            self._awaited = step
            if step is None:
                self._steps = None

    def leave(self, reason: str, now_ms: float, commit_ms: float) -> None:
        """Give everything up and leave the group; what was to be done before is not done any more. The commit takes `commit_ms` at most."""
        self._awaited = None
        self._steps = self._leave(reason, now_ms + commit_ms)

    def _prepare(self, now_ms: float) -> Iterator[Callback | Commit]:
        membership = self._membership
        if self._settings.is_auto_commit and not membership.has_lost_partitions:
            yield self._commits.commit_stored(now_ms + self._settings.group.max_poll_interval_ms)
        while True:
            # A heartbeat may have ended the membership during a callback.
            is_lost = membership.has_lost_partitions
            owned = self._subscriptions.partitions
            given_up = [each for each in owned if is_lost or not membership.is_cooperative or not self._subscriptions.accepts(each.topic)]
            if not given_up:
                break
            yield Callback(LOST if is_lost else REVOKED, tuple(sorted(given_up)))
            self._subscriptions.remove(given_up)
        membership.prepared(self._subscriptions.by_topic())

    @abstractmethod
    def _complete(self, now_ms: float) -> Iterator[Callback | Commit]:
        """Take the assignment over."""

    def _take(self, added: list[TopicPartition]) -> Iterator[Callback]:
        """Read these partitions, too, once the listener knows of them."""
        self._subscriptions.add(added, is_ready=False)
        yield Callback(ASSIGNED, tuple(added))
        for state in self._subscriptions.partitions.values():
            state.is_ready = True

    def _leave(self, reason: str, commit_until_ms: float) -> Iterator[Callback | Commit]:
        membership, subscriptions = self._membership, self._subscriptions
        is_member = membership.is_subscribed
        if self._settings.is_auto_commit and not (is_member and membership.has_lost_partitions):
            yield self._commits.commit_stored(commit_until_ms)
        owned = tuple(sorted(subscriptions.partitions))
        if owned and is_member:
            yield Callback(LOST if membership.has_lost_partitions else REVOKED, owned)
        if is_member:
            membership.leave(reason)
        subscriptions.unsubscribe()


def _pairs(partitions: Partitions) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers}


class ClassicRebalances(Rebalances):
    """Those of a member of a classic group: an assignment is taken over as one, and what it takes away leads to the next rebalance."""

    def __init__(self, settings: ConsumerSettings, membership: Membership, subscriptions: Subscriptions, commits: Commits) -> None:
        super().__init__(settings, membership, subscriptions, commits)
        self._classic = membership

    def _complete(self, now_ms: float) -> Iterator[Callback | Commit]:
        membership, subscriptions = self._classic, self._subscriptions
        assigned = membership.assigned
        assert assigned is not None
        new = _pairs(assigned.partitions)
        if not all(subscriptions.accepts(each.topic) for each in new):
            membership.refuse_assignment(_NOT_SUBSCRIBED, now_ms)
            return
        revoked = sorted(subscriptions.partitions.keys() - new)
        if revoked:
            yield Callback(REVOKED, tuple(revoked))
            subscriptions.remove(revoked)
        if membership.assigned is not assigned:
            return  # the membership ended during the callback
        membership.completed()
        if revoked:
            membership.request_rejoin(_MUST_REVOKE)
        yield from self._take(sorted(new - subscriptions.partitions.keys()))


class Reconciliations(Rebalances):
    """Those of a member of the consumer protocol: it gives up what the coordinator takes away, and then takes what it gives."""

    def __init__(self, settings: ConsumerSettings, membership: ConsumerMembership, subscriptions: Subscriptions, commits: Commits) -> None:
        super().__init__(settings, membership, subscriptions, commits)
        self._consumer = membership

    def _complete(self, now_ms: float) -> Iterator[Callback | Commit]:
        membership, subscriptions = self._consumer, self._subscriptions
        must_commit = self._settings.is_auto_commit
        # After each step the coordinator may have assigned something else, or the membership may have ended.
        while (assigned := membership.assigned) is not None:
            new = _pairs(assigned.partitions)
            revoked = sorted(each for each in subscriptions.partitions if each not in new or each.topic in assigned.renewed)
            if not revoked:
                membership.took_over(assigned)
                yield from self._take(sorted(new - subscriptions.partitions.keys()))
                return
            if must_commit:
                must_commit = False
                yield self._commits.commit_stored(now_ms + self._settings.group.max_poll_interval_ms)
                continue
            yield Callback(REVOKED, tuple(revoked))
            subscriptions.remove(revoked)
            membership.gave_up(revoked)
