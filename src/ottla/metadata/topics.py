"""Topics as values: names and Kafka's rules for them, internal topics, and the replicas of partitions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
GROUP_EVENTS = "__ottla_group_events"
CLUSTER_METADATA = "__cluster_metadata"
METADATA_DIRECTORY = f"{CLUSTER_METADATA}-0"
"""The directory of its log, in the data directory."""
RESERVED_TOPICS = frozenset({CLUSTER_METADATA})
"""No topic has one of these names: the files of such a topic would be the broker's own. `create_topic` refuses them."""
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, GROUP_EVENTS})
"""Topics that clients may not write to, and that Metadata marks as internal."""
_NEVER_AUTO_CREATED = RESERVED_TOPICS | {TRANSACTION_STATE, SHARE_GROUP_STATE}
"""The last two have settings that only Apache Kafka's coordinators know: created with the defaults they would lose records there."""
TOPIC_NAME_CHARS_MAX = 249

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class ReplicaAssignment(NamedTuple):
    """The replicas of a partition: the brokers that hold it and, where known, the ids of their data directories."""

    replicas: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Topic:
    """One topic. `configs` holds only what was set on it, known settings or not; the lists have one item for each partition.

    `is_recreated`: there was another topic of this name before.
    """

    name: str
    topic_id: bytes
    leaders: list[int] = field(default_factory=list)
    leader_epochs: list[int] = field(default_factory=list)
    replica_assignments: list[ReplicaAssignment] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)
    is_recreated: bool = False

    @property
    def is_internal(self) -> bool:
        """Whether Kafka calls it internal."""
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 partitions or replicas means the default. `assignment` maps partitions to replicas (usually empty)."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


def topic_name_problem(name: str) -> str | None:
    """Why `name` cannot be a topic's name, in Kafka's words; None when it can."""
    if name == "":
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > TOPIC_NAME_CHARS_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {TOPIC_NAME_CHARS_MAX}"
    if not _LEGAL_NAME.fullmatch(name):
        return f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def metric_name(name: str) -> str:
    """A topic's name in Kafka's metrics: two topics must not have the same."""
    return name.replace(".", "_")


def may_be_auto_created(name: str) -> bool:
    """Whether a Metadata request may create the topic; to others it answers UNKNOWN_TOPIC_OR_PARTITION, as Apache Kafka does."""
    return name not in _NEVER_AUTO_CREATED
