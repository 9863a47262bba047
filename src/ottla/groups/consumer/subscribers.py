"""The members of a consumer group as its assignor is given them; those whose subscription and target stay are made once."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.groups.assignors import Subscriber
from ottla.groups.consumer.group_state import ResolvedRegex
from ottla.groups.consumer.member import ConsumerMember, Partitions
from ottla.groups.topics import ClusterTopics


class KnownSubscriber(NamedTuple):
    """A member as the assignor sees it, and what that was made of: its subscription, and the target that it had (None: none)."""

    names: frozenset[str]
    regex: str
    target: Partitions | None
    subscriber: Subscriber


class Subscribers:
    """The subscribers of one group, by member id."""

    __slots__ = ("_known", "_resolved", "_shared", "_topics_version")

    def __init__(self) -> None:
        self._known: dict[str, KnownSubscriber] = {}
        self._shared: dict[frozenset[str], frozenset[str]] = {}
        """Equal sets of topics are one, which assignors compare at once."""
        self._topics_version: int | None = None
        self._resolved: Mapping[str, ResolvedRegex] = {}

    def of(
        self,
        members: Mapping[str, ConsumerMember],
        targets: Mapping[str, Partitions],
        resolved: Mapping[str, ResolvedRegex],
        topics: ClusterTopics,
    ) -> dict[str, KnownSubscriber]:
        """The subscribers of these members, in their order. Topics that do not exist are left out."""
        if self._topics_version != topics.topics_version or self._resolved != resolved:
            self._known.clear()
            self._topics_version, self._resolved = topics.topics_version, resolved
        before, known = self._known, {}
        for member_id, member in members.items():
            target, of_member = targets.get(member_id), before.get(member_id)
            if of_member is not None:
                names, regex, of_target, subscriber = of_member
                # The sets and mappings themselves, which are never changed: a member has other ones when it subscribes or gets its target.
                if (
                    names is member.topics
                    and of_target is target
                    and regex == member.regex
                    and subscriber.instance_id == member.instance_id
                    and subscriber.rack == member.rack_id
                ):
                    known[member_id] = of_member
                    continue
            known[member_id] = self._make(member, target, topics)
        self._known = known
        self._shared = {each.subscriber.topics: each.subscriber.topics for each in known.values()}
        return known

    def partitions(self, topics: ClusterTopics) -> dict[str, int]:
        """The number of partitions of each topic that they subscribe to, in Kafka's order of ids, whose halves are signed."""
        found = [topics.topics[name] for name in frozenset().union(*self._shared)]
        return {topic.name: len(topic.leaders) for topic in sorted(found, key=lambda topic: _id_order(topic.topic_id))}

    def _make(self, member: ConsumerMember, target: Partitions | None, topics: ClusterTopics) -> KnownSubscriber:
        resolved = self._resolved.get(member.regex)
        names = member.topics if resolved is None else member.topics | resolved.topics
        subscribed = frozenset(name for name in names if name in topics.topics)
        owned = {
            topic.name: sorted(numbers)
            for topic_id, numbers in (target or {}).items()
            if (topic := topics.topics_by_id.get(topic_id)) is not None
        }
        subscriber = Subscriber(
            member_id=member.member_id,
            topics=self._shared.setdefault(subscribed, subscribed),
            instance_id=member.instance_id,
            owned=owned,
            rack=member.rack_id,
        )
        return KnownSubscriber(member.topics, member.regex, target, subscriber)


def _id_order(topic_id: bytes) -> tuple[int, int]:
    return int.from_bytes(topic_id[:8], signed=True), int.from_bytes(topic_id[8:], signed=True)
