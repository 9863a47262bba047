"""The timeouts of a group's members for `ottla advise --group`: from the records of __consumer_offsets.

Describing a group does not show them; its records do, as the members sent them. Session timeout and heartbeat interval of members of the
consumer protocol (KIP-848) are settings of their group. Nothing is changed in the cluster.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from ottla.cli.clusters import CommandFailed, client_settings, named, of_error
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedTopic, Failure
from ottla.client.errors import ClientError
from ottla.client.fetch.fetch_values import FetchRange
from ottla.client.fetch.fetcher import Fetcher, topic_ranges
from ottla.client.settings import ClientSettings
from ottla.coordinator.placement import coordinator_partition
from ottla.groups.log.records import ConsumerGroupRecord, GroupMetadataRecord, GroupRecord, decode, group_of_record
from ottla.history.advice import HEARTBEAT_OF_GROUP, SESSION_OF_GROUP
from ottla.history.sources.offsets_topic import fetched_batches
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.coordinator_records import (
    GROUP_METADATA,
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataValue,
)
from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import decode_batch
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, parse_subscription

CLIENT_ID: Final = "ottla-advise"
MEMBER, EXPRESSION = 5, 16
"""Record types of a consumer group's members and of its regular expressions."""
_KEYS: Final = frozenset(number.to_bytes(2) for number in (GROUP_METADATA, MEMBER, EXPRESSION))


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts that members have in common.

    max_poll_interval_ms: clients send theirs as the rebalance timeout; None where that is the session timeout, as aiokafka sends it.
    """

    session_timeout_ms: int
    max_poll_interval_ms: int | None

    heartbeat_interval_ms: int | None = None
    """None where it is the member's own setting, which no broker knows."""


@dataclass(frozen=True, slots=True)
class GroupTimeouts:
    """The client ids by their timeouts, how many members there are, and the partitions of the topics that they subscribe to."""

    clients: dict[Timeouts, tuple[str, ...]]
    members: int
    partitions: int


@dataclass(slots=True)
class _Records:
    """A group's last records: of a classic group one, of a consumer group one for each member, and the topics of each expression."""

    classic: GroupMetadataValue | None = None
    members: dict[str, ConsumerGroupMemberMetadataValue] = field(default_factory=dict)
    matched: dict[str, frozenset[str]] = field(default_factory=dict)

    def take(self, record: GroupRecord | None) -> None:
        """The next record of the group; None is one of another kind."""
        if isinstance(record, GroupMetadataRecord):
            self.classic = record.value
        elif isinstance(record, ConsumerGroupRecord) and record.record_type in (MEMBER, EXPRESSION):
            found: dict[str, Any] = self.members if record.record_type == MEMBER else self.matched
            found.pop(record.name, None)
            if record.value is not None:
                found[record.name] = record.value if record.record_type == MEMBER else frozenset(record.value.topics)


def read_group_timeouts(group: str, *, bootstrap_server: str, command_config: str | None) -> GroupTimeouts:
    """The timeouts of the present members. Raises CommandFailed where the cluster or the group does not have them."""
    try:
        settings = client_settings(bootstrap_server, command_config, client_id=CLIENT_ID)
        with AdminClient(settings) as admin:
            found = _records(settings, topic_ranges(admin, CONSUMER_OFFSETS), group)
            if found.members:
                return _of_consumer_group(admin, group, found)
            if found.classic is None or not found.classic.members:
                raise CommandFailed(_why_not(admin, group))
            return _of_classic_group(admin, found.classic)
    except ValueError as error:
        raise CommandFailed(f"--bootstrap-server: {error}") from error
    except (ClientError, PeerError) as error:
        raise CommandFailed(of_error(error)) from error


def _records(settings: ClientSettings, ranges: list[FetchRange], group: str) -> _Records:
    partition = coordinator_partition(group, 1 + max(each.partition.partition for each in ranges))
    found = _Records()
    with Fetcher(settings) as fetcher:
        for wanted in ranges:
            if wanted.partition.partition != partition:
                continue
            for batch in fetched_batches(fetcher, wanted):
                for record in () if batch.header.is_control else decode_batch(batch.data):
                    if record.key is not None and record.key[:2] in _KEYS and group_of_record(record.key) == group:
                        found.take(decode(record.key, record.value))
    return found


def _why_not(admin: AdminClient, group: str) -> str:
    described = admin.describe_groups([group])[group]
    if isinstance(described, Failure):
        return named(described)
    return f"{group} has no members now, so no timeouts: run it while its consumers do, or give their settings with --properties or --set"


def _of_classic_group(admin: AdminClient, value: GroupMetadataValue) -> GroupTimeouts:
    clients: dict[Timeouts, tuple[str, ...]] = {}
    topics: set[str] = set()
    for member in value.members:
        is_session = member.rebalance_timeout_ms == member.session_timeout_ms
        timeouts = Timeouts(member.session_timeout_ms, None if is_session else member.rebalance_timeout_ms)
        clients[timeouts] = (*clients.get(timeouts, ()), member.client_id)
        if value.protocol_type == CONSUMER_PROTOCOL_TYPE:
            topics |= {*parse_subscription(member.subscription).topics}
    return GroupTimeouts(clients, len(value.members), _partitions(admin, topics))


def _of_consumer_group(admin: AdminClient, group: str, found: _Records) -> GroupTimeouts:
    """A classic member in such a group has the session that it sent, and a heartbeat interval of its own."""
    values = admin.group_settings(group, (SESSION_OF_GROUP, HEARTBEAT_OF_GROUP))
    if isinstance(values, Failure):
        raise CommandFailed(f"the settings of {group} cannot be read: {named(values)}")
    session_ms, heartbeat_ms = int(values[SESSION_OF_GROUP]), int(values[HEARTBEAT_OF_GROUP])
    clients: dict[Timeouts, tuple[str, ...]] = {}
    topics = set().union(*found.matched.values())
    for member in found.members.values():
        classic, poll_ms = member.classic_member_metadata, member.rebalance_timeout_ms
        if classic is None or classic == ClassicMemberMetadata():
            timeouts = Timeouts(session_ms, poll_ms, heartbeat_ms)
        else:
            timeouts = Timeouts(classic.session_timeout_ms, None if poll_ms == classic.session_timeout_ms else poll_ms)
        clients[timeouts] = (*clients.get(timeouts, ()), member.client_id)
        topics |= {*member.subscribed_topic_names}
    return GroupTimeouts(clients, len(found.members), _partitions(admin, topics))


def _partitions(admin: AdminClient, topics: set[str]) -> int:
    described = admin.describe_topics(sorted(topics)).values()
    return sum(len(each.leaders) for each in described if isinstance(each, DescribedTopic))
