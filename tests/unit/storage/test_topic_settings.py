"""Which topics are compacted, from a metadata log that may be anybody's."""

import pytest

from ottla.core.catalogue.records import ConfigRecord, TopicRecord, encode
from ottla.core.cleaning.health import Finding
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.storage import topic_settings as room
from ottla.storage.memory_files import MemoryFiles
from ottla.storage.topic_settings import TopicSettings, read_topic_settings

LOG = "__cluster_metadata-0/00000000000000000000.log"


def setting(topic: str, name: str, value: str | None, resource_type: int = 2) -> bytes:
    return encode(ConfigRecord(resource_type=resource_type, resource_name=topic, name=name, value=value))


def read(files: MemoryFiles) -> tuple[dict[str, TopicSettings], list[Finding]]:
    findings: list[Finding] = []
    return read_topic_settings(files, "__cluster_metadata", findings), findings


def log_of(*values: bytes) -> bytes:
    return bytes(encode_batch([Record(offset, 0, None, value) for offset, value in enumerate(values)]))


@pytest.fixture
def files() -> MemoryFiles:
    made = MemoryFiles()
    made.make_directory("__cluster_metadata-0")
    return made


def test_without_a_log_kafkas_own_topics_are_known() -> None:
    settings, findings = read(MemoryFiles())
    assert settings["__consumer_offsets"].is_compacted
    assert "orders" not in settings
    assert findings == []


def test_the_last_value_of_a_setting_counts(files: MemoryFiles) -> None:
    files.replace(
        LOG,
        log_of(
            encode(TopicRecord(name="orders", topic_id=bytes(16))),
            setting("orders", "cleanup.policy", "delete"),
            setting("orders", "cleanup.policy", "compact,delete"),
            setting("orders", "min.cleanable.dirty.ratio", "0.01"),
            setting("orders", "min.compaction.lag.ms", "7000"),
            setting("plain", "cleanup.policy", "compact"),
            setting("plain", "cleanup.policy", None),
            setting("plain", "retention.ms", "5"),
            setting("1", "cleanup.policy", "compact", resource_type=4),
        ),
    )
    settings, findings = read(files)
    assert settings["orders"] == TopicSettings(is_compacted=True, min_cleanable_dirty_ratio=0.01, min_compaction_lag_ms=7000)
    assert settings["plain"] == TopicSettings(is_compacted=None)
    assert "1" not in settings
    assert findings == []


def test_the_newest_snapshot_comes_before_the_log(files: MemoryFiles) -> None:
    files.replace("__cluster_metadata-0/00000000000000000005-0000000001.checkpoint", log_of(setting("a", "cleanup.policy", "compact")))
    files.replace("__cluster_metadata-0/00000000000000000009-0000000001.checkpoint", log_of(setting("b", "cleanup.policy", "compact")))
    files.replace(LOG, log_of(setting("b", "cleanup.policy", "delete"), setting("c", "cleanup.policy", "compact")))
    settings, _ = read(files)
    assert {name: own.is_compacted for name, own in settings.items() if not name.startswith("__")} == {"b": False, "c": True}


@pytest.mark.parametrize(
    "tail",
    [b"\xff" * 100, log_of(b"\x09no record"), log_of(setting("late", "min.compaction.lag.ms", "soon"))],
    ids=["bytes", "frame", "value"],
)
def test_what_cannot_be_read_is_said(files: MemoryFiles, tail: bytes) -> None:
    files.replace(LOG, log_of(setting("orders", "cleanup.policy", "compact")) + tail)
    settings, findings = read(files)
    assert settings["orders"].is_compacted
    (finding,) = findings
    assert LOG in finding.sentence
    assert not finding.is_ill


def test_a_torn_tail_is_nothing(files: MemoryFiles) -> None:
    files.replace(LOG, log_of(setting("orders", "cleanup.policy", "compact")) + log_of(b"x")[:-1])
    settings, findings = read(files)
    assert settings["orders"].is_compacted
    assert findings == []


def test_a_log_that_is_too_large_is_not_read(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "METADATA_BYTES_MAX", 10)
    files.replace(LOG, log_of(setting("orders", "cleanup.policy", "compact")))
    settings, findings = read(files)
    assert "orders" not in settings
    assert "too large" in findings[0].sentence
