"""A modelled member of a consumer group (KIP-848): the membership of `ottla.Consumer` with group.protocol=consumer in a modelled process.

While the group is on its way to a target, each heartbeat is sent at its time; while it is settled, none is simulated.
"""

from collections.abc import Mapping
from typing import Final

from ottla.client.membership.consumer_membership import ConsumerMembership
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.values import GroupSettings, MemberState
from ottla.history.sources.evidence import Cause
from ottla.history.whatif.behaviour import Action, ActionKind
from ottla.history.whatif.member import CLOSED, ModelMember, partitions_of
from ottla.protocol.errors import ErrorCode

STARTS_AGAIN_MS: Final = 5_000
"""A process that may not join since another member has its instance id ends, and is started again."""
_IN_GROUP: Final = (MemberState.STABLE, MemberState.RECONCILING)
_OTHER_TOPIC: Final = "other topics "
"""Stands for topics that a member subscribes to and no source names."""


class ConsumerModelMember(ModelMember[ConsumerMembership]):
    """A process of the consumer protocol."""

    _resubscribed = 0
    _may_start_again = True

    def act(self, origin: int, action: Action) -> None:
        self._may_start_again = action.kind not in (ActionKind.CLOSE, ActionKind.CRASH)
        super().act(origin, action)

    @property
    def sends_heartbeats(self) -> bool:
        return self.is_running and not self._is_silent and self._membership.state in _IN_GROUP

    def learn_topics(self, names: Mapping[str, str]) -> None:
        """Topics by their ids, which may be new to it."""
        if self.is_running:
            self._membership.on_topic_ids(names)

    def _new_membership(self) -> ConsumerMembership:
        process, environment = self.process, self._environment
        settings = GroupSettings(
            group_id=environment.group_id,
            instance_id=process.instance_id,
            is_consumer_protocol=True,
            session_timeout_ms=process.session_timeout_ms,
            max_poll_interval_ms=process.rebalance_timeout_ms,
        )
        now_ms = environment.now_ms
        membership = ConsumerMembership(settings, evidence=Evidence(settings, now_ms=now_ms), now_ms=now_ms, rng=lambda: 0.5)
        membership.member_id = self._new_member_id()
        membership.on_topic_ids(environment.topic_names())
        # With names, known or not, it makes a new epoch.
        membership.subscribe(process.topics or frozenset({_OTHER_TOPIC}))
        return membership

    def _start_again(self) -> None:
        if self._may_start_again and not self.is_running:
            self._start()

    def _close(self) -> None:
        """A static member says that it leaves for now."""
        self._membership.leave(CLOSED)
        self._send_all()
        if self.process.instance_id is None:
            self._own({})
        self._end()

    def _resubscribe(self, action: Action) -> None:
        """A member that joined again for another reason than its subscription has none to do so in this protocol."""
        topics = action.topics
        if topics is None:
            if action.cause is not Cause.SUBSCRIPTION:
                return
            self._resubscribed += 1
            topics = self.process.topics | {f"{_OTHER_TOPIC}{self._resubscribed}"}
        self._membership.subscribe(topics)
        self._go_on()

    def _skip_heartbeats(self, *, is_due: bool) -> None:
        membership, environment = self._membership, self._environment
        if membership.state in _IN_GROUP:
            if is_due or environment.is_settled():
                membership.skip_heartbeats(environment.now_ms, is_due=is_due)
            environment.keep_session(membership.member_id, self.process.instance_id)

    def _wake_ms(self) -> float | None:
        membership = self._membership
        if membership.state is not MemberState.STABLE or not self._environment.is_settled():
            return membership.next_ms()
        return None if self._polls else membership.poll_due_ms

    def _poll(self) -> None:
        membership, environment = self._membership, self._environment
        membership.poll(environment.now_ms)
        membership.has_poll_expired = False
        failure = membership.take_failure()
        if failure is not None:
            self._end()
            if failure is ErrorCode.UNRELEASED_INSTANCE_ID:
                environment.later(STARTS_AGAIN_MS, self._start_again)
            return
        if membership.must_prepare:
            self._own({})
            membership.prepared({})
        assigned = membership.assigned
        if assigned is not None:
            lost = self._held - partitions_of(assigned.partitions)
            if lost:
                membership.gave_up(lost)
                assigned = membership.assigned
            assert assigned is not None, "it has given up what was not in it"
            self._owner_id = membership.member_id
            self._own(assigned.partitions)
            membership.took_over(assigned)
