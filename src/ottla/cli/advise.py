"""The timeouts of a group's members for `ottla advise --group`: from the group's last record in __consumer_offsets.

Describing a group does not show them; its record does, as the members sent them in JoinGroup. Nothing is changed in the cluster.
"""

from dataclasses import dataclass
from typing import Final

from ottla.cli.clusters import CommandFailed, client_settings, named, of_error
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import DescribedTopic, Failure
from ottla.client.errors import ClientError
from ottla.client.fetch.fetch_values import FetchRange
from ottla.client.fetch.fetcher import Fetcher, topic_ranges
from ottla.client.settings import ClientSettings
from ottla.coordinator.placement import coordinator_partition
from ottla.groups.log.records import GroupMetadataRecord, decode
from ottla.history.sources.offsets_topic import fetched_batches
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.coordinator_records import GROUP_METADATA, GroupMetadataValue
from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import decode_batch
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, parse_subscription

CLIENT_ID: Final = "ottla-advise"
_GROUP_KEY_BYTES: Final = GROUP_METADATA.to_bytes(2)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts that members have in common. `max_poll_interval_ms`: clients send theirs as the rebalance timeout."""

    session_timeout_ms: int
    max_poll_interval_ms: int


@dataclass(frozen=True, slots=True)
class GroupTimeouts:
    """The client ids by their timeouts, how many members there are, and the partitions of the topics that they subscribe to."""

    clients: dict[Timeouts, tuple[str, ...]]
    members: int
    partitions: int


def read_group_timeouts(group: str, *, bootstrap_server: str, command_config: str | None) -> GroupTimeouts:
    """The timeouts of the present members. Raises CommandFailed where the cluster or the group does not have them."""
    try:
        settings = client_settings(bootstrap_server, command_config, client_id=CLIENT_ID)
        with AdminClient(settings) as admin:
            value = _last_record(settings, topic_ranges(admin, CONSUMER_OFFSETS), group)
            if value is None or not value.members:
                raise CommandFailed(_why_not(admin, group))
            return _timeouts(admin, value)
    except ValueError as error:
        raise CommandFailed(f"--bootstrap-server: {error}") from error
    except (ClientError, PeerError) as error:
        raise CommandFailed(of_error(error)) from error


def _last_record(settings: ClientSettings, ranges: list[FetchRange], group: str) -> GroupMetadataValue | None:
    """The value of the group's last record; None where there is none, or it is a tombstone."""
    partition = coordinator_partition(group, 1 + max(each.partition.partition for each in ranges))
    found: GroupMetadataValue | None = None
    with Fetcher(settings) as fetcher:
        for wanted in ranges:
            if wanted.partition.partition != partition:
                continue
            for batch in fetched_batches(fetcher, wanted):
                for record in () if batch.header.is_control else decode_batch(batch.data):
                    if record.key is not None and record.key[:2] == _GROUP_KEY_BYTES:
                        decoded = decode(record.key, record.value)
                        if isinstance(decoded, GroupMetadataRecord) and decoded.group_id == group:
                            found = decoded.value
    return found


def _why_not(admin: AdminClient, group: str) -> str:
    described = admin.describe_groups([group])[group]
    if isinstance(described, Failure):
        return named(described)
    if described.kind == "consumer":
        return f"{group} is a group of the protocol of KIP-848: brokers set the session timeout of its members, not the members themselves"
    return f"{group} has no members now, so no timeouts: run it while its consumers do, or give their settings with --properties or --set"


def _timeouts(admin: AdminClient, value: GroupMetadataValue) -> GroupTimeouts:
    clients: dict[Timeouts, tuple[str, ...]] = {}
    topics: set[str] = set()
    for member in value.members:
        timeouts = Timeouts(member.session_timeout_ms, member.rebalance_timeout_ms)
        clients[timeouts] = (*clients.get(timeouts, ()), member.client_id)
        if value.protocol_type == CONSUMER_PROTOCOL_TYPE:
            topics |= {*parse_subscription(member.subscription).topics}
    described = admin.describe_topics(sorted(topics)).values()
    return GroupTimeouts(clients, len(value.members), sum(len(each.leaders) for each in described if isinstance(each, DescribedTopic)))
