"""What the leader of a group does: all members' subscriptions in, their assignments out (Kafka: `ConsumerCoordinator.onLeaderElected`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.core.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber
from ottla.core.client.group.values import JoinedMember
from ottla.core.wire.consumer_protocol import encode_assignment, parse_subscription


class InvalidAssignment(Exception):
    """A cooperative assignor gave away a partition that another member still owns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment:
    """The assignments as bytes by member id, and the topics to which any member subscribes."""

    assignments: tuple[tuple[str, bytes], ...]
    topics: frozenset[str]


def make_assignments(
    assignor: Assignor, members: Sequence[JoinedMember], partitions: Mapping[str, int], racks: Racks = NO_RACKS
) -> GroupAssignment:
    """Assign `partitions` (their count by topic; topics that are not known yet are left out) to `members`.

    Raises PeerError for a subscription that cannot be read, and InvalidAssignment.
    """
    subscribers = [_subscriber(assignor, member) for member in members]
    topics = frozenset(topic for each in subscribers for topic in each.topics)
    made = assignor.assign(subscribers, {topic: count for topic, count in partitions.items() if topic in topics}, racks)
    if assignor.is_cooperative:
        _check_cooperative(assignor.name, subscribers, made)
    assignments = tuple((each.member_id, encode_assignment(made.get(each.member_id, {}))) for each in subscribers)
    return GroupAssignment(assignments=assignments, topics=topics)


def _subscriber(assignor: Assignor, member: JoinedMember) -> Subscriber:
    read = parse_subscription(member.metadata)
    described = Subscriber(
        member_id=member.member_id,
        topics=frozenset(read.topics),
        instance_id=member.instance_id,
        owned=read.owned,
        generation=read.generation,
        rack=read.rack,
    )
    return assignor.with_user_data(described, read.user_data)


def _check_cooperative(name: str, members: Iterable[Subscriber], made: Assignment) -> None:
    """A partition that a member of the latest generation owns may stay there or be left out, and go nowhere else yet."""
    latest = max((member.generation for member in members), default=0)
    owners: dict[tuple[str, int], set[str]] = {}
    for member in members:
        if member.generation == latest:
            for topic, numbers in member.owned.items():
                for number in numbers:
                    owners.setdefault((topic, number), set()).add(member.member_id)
    for member_id, mine in made.items():
        for topic, numbers in mine.items():
            for number in numbers:
                others = owners.get((topic, number), set())
                if len(others) == 1 and member_id not in others:
                    raise InvalidAssignment(f"assignor {name} gave {topic}-{number} to {member_id} before its owner revoked it")
