"""A described group as a state: subscriptions and assignments of its members, partitions and racks of their topics."""

from ottla.cli.assign.state import State
from ottla.cli.groups.failures import CommandFailed, named
from ottla.cli.groups.offset_rows import assigned_partitions
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedGroup, DescribedMember, DescribedTopic, Failure
from ottla.core.assignors import Subscriber
from ottla.core.errors import PeerError
from ottla.core.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, NO_GENERATION, parse_subscription


def read_group_state(admin: AdminClient, group_id: str) -> State:
    """The group as it is now. Raises CommandFailed where it has no members whose subscriptions are known, and the client's errors."""
    found = admin.describe_groups([group_id])[group_id]
    if isinstance(found, Failure):
        raise CommandFailed(named(found))
    if not found.members:
        raise CommandFailed(f"the group {group_id} has no members: give them in a file (--file)")
    members = tuple(_subscriber(found, each) for each in found.members)
    described = admin.describe_topics(sorted({topic for member in members for topic in member.topics}))
    topics = {name: each for name, each in described.items() if isinstance(each, DescribedTopic)}
    racks = {
        name: tuple(each.racks.get(number, frozenset()) for number in range(len(each.leaders)))
        for name, each in topics.items()
        if each.racks
    }
    return State(members, {name: len(each.leaders) for name, each in topics.items()}, racks)


def _subscriber(group: DescribedGroup, member: DescribedMember) -> Subscriber:
    owned = {topic: numbers for topic, numbers in assigned_partitions(member).items() if numbers}
    topics, rack = frozenset(member.topics), member.rack
    if group.kind != "consumer":
        topics, rack = _classic_subscription(group, member)
    return Subscriber(
        member_id=member.member_id,
        topics=topics.union(owned),  # a regular expression's topics are known by what is assigned
        instance_id=member.instance_id,
        owned=owned,
        generation=0 if owned else NO_GENERATION,
        rack=rack,
    )


def _classic_subscription(group: DescribedGroup, member: DescribedMember) -> tuple[frozenset[str], str | None]:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise CommandFailed(f"the group {group.group_id} is no consumer group: its protocol type is {group.protocol_type!r}")
    if not member.subscription_bytes:
        raise CommandFailed(
            f"the group {group.group_id} is in state {group.state}: subscriptions are known when it is Stable, so try again"
        )
    try:
        subscription = parse_subscription(member.subscription_bytes)
    except PeerError as error:
        raise CommandFailed(f"the subscription of {member.member_id} is not one of Kafka's consumer protocol: {error}") from error
    return frozenset(subscription.topics), subscription.rack
