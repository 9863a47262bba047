"""The topics' settings as the cluster's own metadata log in a data directory has them: for looking at a directory without a broker.

It keeps the settings that decide whether and when a topic is cleaned. The cluster metadata has those in force; the options of a started
broker are in no data directory, so Kafka's defaults replace them. The log is read leniently: it may be Apache Kafka's, of a later
version, and just being written to; what cannot be read ends that file's part, and the caller gets the reason.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ottla.config import BROKER_SETTINGS, ConfigSource
from ottla.log.checkpoints import META_PROPERTIES
from ottla.log.cleaner.health import Finding
from ottla.log.segment_facts import Readable
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.metadata_replay import MetadataReplay
from ottla.metadata.quorum import snapshot_ids
from ottla.metadata.records import (
    AbortTransaction,
    BeginTransaction,
    ConfigRecord,
    EndTransaction,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
    TransactionMark,
    decode,
)
from ottla.metadata.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, Topic
from ottla.protocol.errors import PeerError
from ottla.protocol.records.batch import decode_batch, split_batches

METADATA_BYTES_MAX: Final = 64 << 20
"""A file of the metadata log beyond this is not read: looking shall be cheap."""
COMPACTED_BY_KAFKA: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
_NODE_ID: Final = re.compile(rb"^node\.id=(\d{1,10})\s*$", re.MULTILINE)
_META_PROPERTIES_BYTES_MAX: Final = 4096
_OF_INTEREST: Final = (TopicRecord, RemoveTopicRecord, ConfigRecord, BeginTransaction, EndTransaction, AbortTransaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Kafka's defaults where nothing was set; `is_compacted` None: no cleanup.policy was set, for the topic or for all."""

    is_compacted: bool | None = None
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1


def read_topic_settings(files: Readable, metadata_topic: str, findings: list[Finding]) -> dict[str, TopicSettings]:
    """The settings in force, by topic. What could not be read is added to `findings`."""
    cluster_metadata = ClusterMetadata((_node_id(files),), lambda name: BROKER_SETTINGS[name].default)
    replay = MetadataReplay(cluster_metadata)
    directory = f"{metadata_topic}-0"
    names = files.list(directory)
    snapshots = snapshot_ids(names)[-1:]
    covered = max((snapshot.end_offset for snapshot in snapshots), default=0)
    sources = [(snapshot.file_name, 0) for snapshot in snapshots]
    sources += [(name, covered) for name in names if name.endswith(".log")]
    for name, from_offset in sources:
        path = f"{directory}/{name}"
        try:
            if files.size(path) > METADATA_BYTES_MAX:
                raise PeerError("it is too large to be read in passing")
            for record in _records(files.read_all(path), from_offset):
                replay.replay(record)
        except (PeerError, LookupError) as error:
            what = error if isinstance(error, PeerError) else "it speaks of a topic that there is not"
            sentence = f"The topics' settings in {path} could not all be read: {what}."
            findings.append(Finding(subject=path, is_ill=False, sentence=sentence, advice="Some topics may be judged by Kafka's defaults."))
    settings = {name: TopicSettings(is_compacted=True) for name in COMPACTED_BY_KAFKA}
    for topic in cluster_metadata.topics.values():
        settings[topic.name] = _in_force(cluster_metadata, topic)
    for refused in cluster_metadata.configs.unusable():
        sentence = f"A setting of {refused.owner} is invalid: {refused.problem}."
        findings.append(Finding(subject=refused.owner, is_ill=False, sentence=sentence, advice="Its default is in force."))
    return settings


def _node_id(files: Readable) -> int:
    """Whose broker settings count; -1, whose there are none, when the directory does not say."""
    if not files.exists(META_PROPERTIES):
        return -1
    found = _NODE_ID.search(files.read_range(META_PROPERTIES, 0, _META_PROPERTIES_BYTES_MAX))
    return int(found[1]) if found else -1


def _records(data: bytes, from_offset: int) -> Iterator[MetadataRecord | TransactionMark]:
    """The records of topics and settings after those that a snapshot covers."""
    for position, header in split_batches(data):
        if not header.is_control and header.last_offset >= from_offset:
            for record in decode_batch(data, position):
                decoded = decode(record.value or b"")
                if record.offset >= from_offset and isinstance(decoded, _OF_INTEREST):
                    yield decoded


def _in_force(cluster_metadata: ClusterMetadata, topic: Topic) -> TopicSettings:
    policy, source = cluster_metadata.value_in_force(topic, "cleanup.policy")
    is_compacted = "compact" in policy if source is not ConfigSource.DEFAULT else True if topic.name in COMPACTED_BY_KAFKA else None
    ratio = cluster_metadata.parsed_value(topic, "min.cleanable.dirty.ratio")
    assert isinstance(ratio, float)
    return TopicSettings(
        is_compacted=is_compacted,
        min_cleanable_dirty_ratio=ratio,
        min_compaction_lag_ms=cluster_metadata.number_in_force(topic, "min.compaction.lag.ms"),
        max_compaction_lag_ms=cluster_metadata.number_in_force(topic, "max.compaction.lag.ms"),
    )
