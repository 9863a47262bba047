"""Which topics are compacted, from a metadata log of any broker."""

import pytest

from ottla.broker.monitoring import directory_settings as topic_settings
from ottla.broker.monitoring.directory_settings import TopicSettings, read_topic_settings
from ottla.log.cleaner.health import Finding
from ottla.log.file_system import MemoryFiles
from ottla.metadata.records import ConfigRecord, RemoveTopicRecord, TopicRecord, encode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch

LOG = "__cluster_metadata-0/00000000000000000000.log"


def setting(topic: str, name: str, value: str | None, resource_type: int = 2) -> bytes:
    return encode(ConfigRecord(resource_type=resource_type, resource_name=topic, name=name, value=value))


def topic(name: str, number: int = 0) -> bytes:
    return encode(TopicRecord(name=name, topic_id=number.to_bytes(1) + name.encode().ljust(15)))


def removed(name: str, number: int = 0) -> bytes:
    return encode(RemoveTopicRecord(topic_id=number.to_bytes(1) + name.encode().ljust(15)))


def read(files: MemoryFiles) -> tuple[dict[str, TopicSettings], list[Finding]]:
    findings: list[Finding] = []
    return read_topic_settings(files, "__cluster_metadata", findings), findings


def log_of(*values: bytes, base_offset: int = 0) -> bytes:
    return bytes(encode_batch([Record(at, 0, None, value) for at, value in enumerate(values, base_offset)], base_offset=base_offset))


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
            topic("orders"),
            topic("plain"),
            setting("orders", "cleanup.policy", "delete"),
            setting("orders", "cleanup.policy", "compact,delete"),
            setting("orders", "min.cleanable.dirty.ratio", "0.01"),
            setting("orders", "min.compaction.lag.ms", "7000"),
            setting("plain", "cleanup.policy", "compact"),
            setting("plain", "cleanup.policy", None),
            setting("plain", "retention.ms", "5"),
        ),
    )
    settings, findings = read(files)
    assert settings["orders"] == TopicSettings(is_compacted=True, min_cleanable_dirty_ratio=0.01, min_compaction_lag_ms=7000)
    assert settings["plain"] == TopicSettings(is_compacted=None)
    assert findings == []


def test_a_topic_that_was_made_again_has_no_settings_of_the_old_one(files: MemoryFiles) -> None:
    files.replace(
        LOG, log_of(topic("t"), setting("t", "cleanup.policy", "compact"), removed("t"), topic("t", 1), topic("gone"), removed("gone"))
    )
    settings, findings = read(files)
    assert settings["t"] == TopicSettings(is_compacted=None)
    assert "gone" not in settings
    assert findings == []


@pytest.mark.parametrize(("owner", "is_compacted"), [("", True), ("7", True), ("8", None)])
def test_what_was_set_for_brokers_counts_where_a_topic_has_nothing_of_its_own(
    files: MemoryFiles, owner: str, is_compacted: bool | None
) -> None:
    files.replace("meta.properties", b"#\nversion=1\nnode.id=7\ncluster.id=c\n")
    of_brokers = setting(owner, "log.cleanup.policy", "compact", resource_type=4)
    files.replace(LOG, log_of(topic("t"), topic("own"), setting("own", "cleanup.policy", "delete"), of_brokers))
    settings, findings = read(files)
    assert (settings["t"].is_compacted, settings["own"].is_compacted, findings) == (is_compacted, False, [])


def test_the_newest_snapshot_comes_before_the_log_and_stands_for_its_beginning(files: MemoryFiles) -> None:
    compact = [setting(name, "cleanup.policy", "compact") for name in "abc"]
    files.replace("__cluster_metadata-0/00000000000000000003-0000000001.checkpoint", log_of(topic("a"), compact[0]))
    files.replace("__cluster_metadata-0/00000000000000000004-0000000001.checkpoint", log_of(topic("b"), compact[1]))
    log = log_of(topic("a"), topic("b"), removed("a"), compact[1], setting("b", "cleanup.policy", "delete"))
    files.replace(LOG, log + log_of(topic("c"), compact[2], base_offset=5))
    settings, findings = read(files)
    assert {name: own.is_compacted for name, own in settings.items() if not name.startswith("__")} == {"b": False, "c": True}
    assert findings == []


@pytest.mark.parametrize(
    "tail",
    [b"\xff" * 100, log_of(b"\x09no record"), log_of(removed("never made"))],
    ids=["bytes", "frame", "topic"],
)
def test_what_cannot_be_read_is_logged(files: MemoryFiles, tail: bytes) -> None:
    files.replace(LOG, log_of(topic("orders"), setting("orders", "cleanup.policy", "compact")) + tail)
    settings, findings = read(files)
    assert settings["orders"].is_compacted
    (finding,) = findings
    assert LOG in finding.sentence
    assert not finding.is_ill


def test_a_value_that_is_none_is_logged(files: MemoryFiles) -> None:
    late = [topic("late"), setting("late", "min.compaction.lag.ms", "soon")]
    files.replace(LOG, log_of(*late, topic("orders"), setting("orders", "cleanup.policy", "compact")))
    settings, findings = read(files)
    assert (settings["late"].min_compaction_lag_ms, settings["orders"].is_compacted) == (0, True)
    (finding,) = findings
    assert (finding.subject, finding.is_ill) == ("topic late", False)
    assert "Invalid value soon for configuration min.compaction.lag.ms: Not a number of type LONG" in finding.sentence


def test_a_torn_tail_is_nothing(files: MemoryFiles) -> None:
    files.replace(LOG, log_of(topic("orders"), setting("orders", "cleanup.policy", "compact")) + log_of(b"x")[:-1])
    settings, findings = read(files)
    assert settings["orders"].is_compacted
    assert findings == []


def test_a_log_that_is_too_large_is_not_read(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_settings, "METADATA_BYTES_MAX", 10)
    files.replace(LOG, log_of(topic("orders"), setting("orders", "cleanup.policy", "compact")))
    settings, findings = read(files)
    assert "orders" not in settings
    assert "too large" in findings[0].sentence
