"""`ottla coordinator`: the hash of a group's name, its partition of the offsets topic, and the broker that leads the partition.

The partition is arithmetic; only its count and its leader are asked for. Asking never makes the offsets topic.
"""

from dataclasses import dataclass
from typing import Any

from ottla.cli.clusters import CommandFailed, client_settings, message, of_error
from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import Failure
from ottla.client.errors import ClientError
from ottla.config import BROKER_SETTINGS
from ottla.coordinator.placement import coordinator_partition
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.text import java_hash, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorAddress:
    """Where a group belongs. `node` is None without a cluster, or where `note` says why it has no leader."""

    group: str
    hash: int
    partition: int
    partitions: int
    node: BrokerEndpoint | None = None
    note: str | None = None

    def document(self) -> dict[str, Any]:
        """The place as JSON-ready values."""
        found: dict[str, Any] = {
            "group": self.group,
            "hash": self.hash,
            "topic": CONSUMER_OFFSETS,
            "partition": self.partition,
            "partitions": self.partitions,
            "coordinator": self.node._asdict() if self.node else None,
        }
        return found | ({"note": self.note} if self.note else {})


def find_place(
    group: str, *, bootstrap_server: str | None, partitions: int | None, command_config: str | None, timeout_ms: int
) -> CoordinatorAddress:
    """The place of a group, in the cluster behind `bootstrap_server` if there is one. Raises CommandFailed."""
    try:
        group.encode()
    except UnicodeEncodeError as error:
        raise CommandFailed("the group is no text in UTF-8") from error
    if bootstrap_server is None:
        return place_of(group, partitions or _partitions_by_default())
    try:
        settings = client_settings(bootstrap_server, command_config, client_id="ottla-coordinator")
        with AdminClient(settings, timeout_ms=timeout_ms) as admin:
            return _in_cluster(admin, group, partitions)
    except ValueError as error:
        raise CommandFailed(f"--bootstrap-server: {error}") from error
    except (ClientError, PeerError) as error:
        raise CommandFailed(of_error(error)) from error


def place_of(group: str, partitions: int, *, node: BrokerEndpoint | None = None, note: str | None = None) -> CoordinatorAddress:
    """The place that follows from the name and the number of partitions."""
    partition = coordinator_partition(group, partitions)
    return CoordinatorAddress(group=group, hash=java_hash(group), partition=partition, partitions=partitions, node=node, note=note)


def _partitions_by_default() -> int:
    return int(BROKER_SETTINGS["offsets.topic.num.partitions"].default)


def _in_cluster(admin: AdminClient, group: str, partitions: int | None) -> CoordinatorAddress:
    topic = admin.describe_topics([CONSUMER_OFFSETS])[CONSUMER_OFFSETS]
    if isinstance(topic, Failure):
        if topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise CommandFailed(f"{CONSUMER_OFFSETS}: {message(topic)}")
        note = f"{CONSUMER_OFFSETS} does not exist yet: the first group that needs it makes it"
        return place_of(group, partitions or _partitions_by_default(), note=note)
    count = partitions or max(topic.leaders) + 1
    partition = coordinator_partition(group, count)
    if partition not in topic.leaders:
        raise CommandFailed(
            f"{CONSUMER_OFFSETS} has {len(topic.leaders)} partitions here, and no partition {partition}: leave --partitions out"
        )
    leader = topic.leaders[partition]
    if leader is None:
        return place_of(group, count, note=f"{CONSUMER_OFFSETS}-{partition} has no leader")
    return place_of(group, count, node=admin.broker(leader))


def lines_of(place: CoordinatorAddress) -> list[str]:
    """The place as text."""
    lines = [
        f"group      {printable(place.group)}",
        f"hash       {place.hash}",
        f"partition  {CONSUMER_OFFSETS}-{place.partition} (of {place.partitions})",
    ]
    if place.node is not None:
        lines.append(f"broker     {place.node.broker_id} at {place.node.host}:{place.node.port}")
    if place.note is not None:
        lines.append(f"broker     - ({place.note})")
    return lines
