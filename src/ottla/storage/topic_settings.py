"""The topics' settings as the cluster's own metadata log in a data directory has them: for looking at a directory without a broker.

It keeps what says whether and when a topic is cleaned. The log is read leniently: it may be Apache Kafka's, of a later version, and just
being written to; what cannot be read ends that file's part, and whoever asked is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ottla.core.catalogue.records import ConfigRecord, decode
from ottla.core.cleaning.health import Finding
from ottla.core.errors import PeerError
from ottla.core.records.batch import decode_batch, split_batches
from ottla.storage.segment_facts import Readable

METADATA_BYTES_MAX: Final = 64 << 20
"""A file of the metadata log beyond this is not read: looking shall be cheap."""
_TOPIC: Final = 2
COMPACTED_BY_KAFKA: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Kafka's defaults where a topic has no setting of its own; `is_compacted` None: it has no cleanup.policy of its own."""

    is_compacted: bool | None = None
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0


def read_topic_settings(files: Readable, metadata_topic: str, findings: list[Finding]) -> dict[str, TopicSettings]:
    """The settings by topic. What could not be read is added to `findings`."""
    settings = {name: TopicSettings(is_compacted=True) for name in COMPACTED_BY_KAFKA}
    directory = f"{metadata_topic}-0"
    names = files.list(directory)
    snapshots = [name for name in names if name.endswith(".checkpoint")]
    for name in [*snapshots[-1:], *(name for name in names if name.endswith(".log"))]:
        path = f"{directory}/{name}"
        try:
            if files.size(path) > METADATA_BYTES_MAX:
                raise PeerError("it is too large to be read in passing")
            for record in _records(files.read_all(path)):
                if record.resource_type == _TOPIC:
                    before = settings.get(record.resource_name, TopicSettings())
                    settings[record.resource_name] = _changed(before, record.name, record.value)
        except PeerError as error:
            sentence = f"The topics' settings in {path} could not all be read: {error}."
            findings.append(Finding(subject=path, is_ill=False, sentence=sentence, advice="Some topics may be judged by Kafka's defaults."))
    return settings


def _records(data: bytes) -> Iterator[ConfigRecord]:
    for position, header in split_batches(data):
        if not header.is_control:
            for record in decode_batch(data, position):
                decoded = decode(record.value or b"")
                if isinstance(decoded, ConfigRecord):
                    yield decoded


def _changed(settings: TopicSettings, name: str, value: str | None) -> TopicSettings:
    try:
        if name == "cleanup.policy":
            return replace(settings, is_compacted=None if value is None else "compact" in value)
        if name == "min.cleanable.dirty.ratio":
            return replace(settings, min_cleanable_dirty_ratio=0.5 if value is None else float(value))
        if name == "min.compaction.lag.ms":
            return replace(settings, min_compaction_lag_ms=0 if value is None else int(value))
    except ValueError as error:
        raise PeerError(f"{name} is {value!r}") from error
    return settings
