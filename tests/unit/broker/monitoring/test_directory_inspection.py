"""Data directories on the disk."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.monitoring import directory_inspection as topic_settings
from ottla.broker.monitoring.directory_inspection import Inspection, PartitionFacts, TopicSettings, inspect_directory, read_topic_settings
from ottla.log.checkpoints import CLEANER_FILE, LOG_START_FILE, encode_offsets
from ottla.log.cleaner.health import FINDINGS_MAX, Finding
from ottla.log.file_system import MemoryFiles
from ottla.log.files import OsFiles
from ottla.log.segment_facts import SegmentFacts
from ottla.metadata.records import ConfigRecord, RemoveTopicRecord, TopicRecord, encode
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch

LOG = "__cluster_metadata-0/00000000000000000000.log"

HOUR = 3_600_000
T0 = 1_700_000_000_000


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


def partition(
    *segments: SegmentFacts, cleaned_to: int | None = None, log_start: int = 0, now_ms: int = T0, **settings: Any
) -> PartitionFacts:
    return PartitionFacts(
        name=TopicPartition("t", 0),
        segments=segments,
        cleaned_to=cleaned_to,
        log_start=log_start,
        settings=TopicSettings(**settings),
        now_ms=now_ms,
    )


def add_segment(files: MemoryFiles | OsFiles, directory: str, base: int, times_ms: Sequence[int], value_bytes: int = 1000) -> int:
    """Writes a segment with one batch for each time; gives its size."""
    files.make_directory(directory)
    batches = [
        bytes(encode_batch([Record(base + at, ms, b"k", bytes(value_bytes))], base_offset=base + at)) for at, ms in enumerate(times_ms)
    ]
    files.replace(f"{directory}/{base:020d}.log", b"".join(batches))
    files.replace(f"{directory}/{base:020d}.index", b"")
    files.replace(f"{directory}/{base:020d}.timeindex", struct.pack(">qi", max(times_ms), 0))
    return sum(map(len, batches))


def add_setting(files: MemoryFiles | OsFiles, topic: str, **settings: str) -> None:
    files.make_directory("__cluster_metadata-0")
    values = [encode(TopicRecord(name=topic, topic_id=bytes(16)))]
    values += [
        encode(ConfigRecord(resource_type=2, resource_name=topic, name=name.replace("_", "."), value=value))
        for name, value in settings.items()
    ]
    batch = encode_batch([Record(at, T0, None, value) for at, value in enumerate(values)])
    files.replace("__cluster_metadata-0/00000000000000000000.log", batch)
    files.replace("__cluster_metadata-0/00000000000000000000.index", b"")
    files.replace("__cluster_metadata-0/00000000000000000000.timeindex", b"")


def sentences(inspection: Inspection, *, unhealthy: bool) -> list[str]:
    return [finding.sentence for finding in inspection.findings if finding.is_ill is unhealthy]


def test_dirty_is_what_lies_behind_the_checkpoint() -> None:
    segments = [SegmentFacts(0, 100, 1, 2), SegmentFacts(10, 50, 3, 4), SegmentFacts(20, 30, 5, 6), SegmentFacts(30, 7, 7, 8)]
    never = partition(*segments)
    assert (never.size_bytes, never.dirty_bytes, never.cleanable_bytes, never.dirty_ratio) == (187, 187, 180, 1.0)
    once = partition(*segments, cleaned_to=20)
    assert (once.dirty_bytes, once.cleanable_bytes, once.dirty_ratio) == (37, 30, 30 / 180)
    partly = partition(*segments, cleaned_to=15)
    assert (partly.dirty_bytes, partly.cleanable_bytes) == (87, 80)
    assert partly.dirty_ratio == 80 / (150 + 80), "Kafka counts a segment that is clean in part on both sides"
    whole = partition(*segments, cleaned_to=30)
    assert (whole.dirty_bytes, whole.cleanable_bytes, whole.dirty_ratio) == (7, 0, 0.0)
    assert (partition().dirty_bytes, partition().dirty_ratio) == (0, 0.0)


def test_the_dirty_ratio_is_that_of_kafkas_cleaner() -> None:
    """`LogCleanerManager` leaves out what is younger than min.compaction.lag.ms, and begins where the log begins now."""
    segments = [SegmentFacts(0, 100, 1, 2), SegmentFacts(10, 50, 3, 4), SegmentFacts(20, 30, 5, 6), SegmentFacts(30, 7, 7, 8)]
    young = partition(*segments, cleaned_to=10, now_ms=9, min_compaction_lag_ms=4)
    assert (young.dirty_bytes, young.cleanable_bytes, young.dirty_ratio) == (87, 50, 50 / 150)
    deleted = partition(*segments[1:], cleaned_to=0, log_start=20)
    assert (deleted.dirty_bytes, deleted.cleanable_bytes, deleted.dirty_ratio) == (37, 30, 30 / 80)


def test_a_cleaning_is_due_from_when_the_ratio_was_passed() -> None:
    segments = [
        SegmentFacts(0, 100, 0, 1000),
        SegmentFacts(10, 60, 1001, 2000),
        SegmentFacts(20, 60, 2001, 3000),
        SegmentFacts(30, 7, 3500, 9000),
    ]

    def due(**settings: Any) -> int | None:
        return partition(*segments, cleaned_to=10, **settings).cleanable_since_ms()

    assert due() == 3500
    assert due(min_cleanable_dirty_ratio=0.1) == 2001
    assert due(min_cleanable_dirty_ratio=0.1, min_compaction_lag_ms=50) == 2051
    assert due(min_cleanable_dirty_ratio=0.9) is None
    assert partition(segments[0]).cleanable_since_ms() is None


def test_bytes_by_time_are_spread_over_a_segment() -> None:
    facts = partition(SegmentFacts(0, 100, 1000, 2000), SegmentFacts(10, 400, 2000, 6000), SegmentFacts(20, 0, -1, -1))
    assert [facts.bytes_at(at_ms) for at_ms in (0, 1000, 1500, 2000, 3000, 6000)] == [0, 0, 50, 100, 200, 500]
    assert partition(SegmentFacts(0, 100, 5, 5)).bytes_at(4) == 0
    assert partition(SegmentFacts(0, 100, 5, 5)).bytes_at(5) == 100


def test_a_directory_where_the_cleaner_has_been_missing() -> None:
    files = MemoryFiles()
    add_setting(files, "prices", cleanup_policy="compact", min_cleanable_dirty_ratio="0.4")
    clean = add_segment(files, "prices-0", 0, [T0, T0 + HOUR])
    dirty = add_segment(files, "prices-0", 2, [T0 + 2 * HOUR, T0 + 3 * HOUR])
    active = add_segment(files, "prices-0", 4, [T0 + 5 * HOUR, T0 + 6 * HOUR])
    plain = add_segment(files, "logs-1", 0, [T0 + 5 * HOUR])
    files.replace(CLEANER_FILE, encode_offsets({TopicPartition("prices", 0): 2}))
    seen = inspect_directory(files, T0 + 100 * HOUR)
    assert seen.at_ms == T0 + 6 * HOUR
    topics = {topic.name: topic for topic in seen.topics}
    prices = topics["prices"]
    assert (prices.size_bytes, prices.dirty_bytes, prices.cleanable_bytes) == (clean + dirty + active, dirty + active, dirty)
    assert prices.dirty_ratio == dirty / (clean + dirty)
    assert prices.overdue_ms == HOUR, "the second segment was closed when the third began"
    assert (prices.grown_bytes, prices.grown_over_ms) == (active, HOUR)
    logs = topics["logs"]
    assert (logs.is_compacted, logs.size_bytes, logs.dirty_bytes, logs.overdue_ms, logs.grown_bytes) == (False, plain, 0, 0, 0)
    assert seen.findings == ()
    assert seen.is_data_directory


def test_a_topic_that_was_cleaned_once_is_compacted() -> None:
    files = MemoryFiles()
    add_segment(files, "old-0", 0, [T0])
    files.replace(CLEANER_FILE, encode_offsets({TopicPartition("old", 0): 0}))
    (old,) = inspect_directory(files, T0).topics
    assert old.is_compacted


def test_a_clock_that_is_behind_the_records_is_believed() -> None:
    files = MemoryFiles()
    add_segment(files, "t-0", 0, [T0 + 500 * HOUR])
    assert inspect_directory(files, T0).at_ms == T0


def test_a_damaged_checkpoint_is_logged() -> None:
    files = MemoryFiles()
    files.replace(CLEANER_FILE, b"0\n7\n")
    assert sentences(inspect_directory(files, T0), unhealthy=True) == [f"{CLEANER_FILE} is damaged: everything counts as dirty."]


def test_records_that_were_deleted_are_not_dirty() -> None:
    files = MemoryFiles()
    add_setting(files, "prices", cleanup_policy="compact,delete")
    first = add_segment(files, "prices-0", 0, [T0, T0])
    second = add_segment(files, "prices-0", 2, [T0, T0])
    add_segment(files, "prices-0", 4, [T0])
    files.replace(LOG_START_FILE, encode_offsets({TopicPartition("prices", 0): 2}))
    (prices,) = (topic for topic in inspect_directory(files, T0).topics if topic.name == "prices")
    assert prices.cleanable_bytes == second
    assert prices.dirty_ratio == second / (first + second)
    files.replace(LOG_START_FILE, b"0\n7\n")
    assert sentences(inspect_directory(files, T0), unhealthy=True) == [
        f"{LOG_START_FILE} is damaged: records that clients deleted may be readable again."
    ]


def test_odd_files() -> None:
    files = MemoryFiles()
    add_segment(files, "a-0", 0, [T0])
    for name in ("00000000000000000000.log.cleaned", "00000000000000000000.index.cleaned", "00000000000000000005.log.swap"):
        files.replace(f"a-0/{name}", b"")
    add_segment(files, "b-0", 0, [T0])
    add_segment(files, "b-0", 1, [T0])
    files.remove("b-0/00000000000000000000.log")
    files.remove("b-0/00000000000000000001.index")
    files.make_directory("c-0")
    files.replace("c-0/partition.metadata", b"")
    seen = inspect_directory(files, T0)
    assert sentences(seen, unhealthy=True) == ["b-0/00000000000000000000.log is gone, while its index is there (1 such)."]
    assert sentences(seen, unhealthy=False) == [
        "a-0: a cleaning is at work or was cut off (2 .cleaned files).",
        "a-0: a cleaning was cut off when its result was put in place (1 .swap files).",
        "b-0: 1 segments lack an index, the first at offset 1.",
        "c-0 holds no segment.",
    ]


def test_odd_directories() -> None:
    files = MemoryFiles()
    for name in (f"gone-0.{'0a' * 16}-delete", f"lost-3.{'0a' * 16}-stray", "holiday", "work"):
        files.make_directory(name)
        files.replace(f"{name}/x", bytes(2000))
    files.replace("meta.properties", b"")
    seen = inspect_directory(files, T0)
    assert sentences(seen, unhealthy=True) == []
    said = sentences(seen, unhealthy=False)
    assert len(said) == 3
    assert "is deleted and holds 2 kB" in said[0]
    assert "did not know" in said[1]
    assert said[2] == "2 directories are no partition's: holiday, work."
    assert seen.is_data_directory
    assert not inspect_directory(MemoryFiles(), T0).is_data_directory
    files = MemoryFiles()
    files.make_directory("tmux-0")
    assert not inspect_directory(files, T0).is_data_directory


def test_findings_are_bounded() -> None:
    files = MemoryFiles()
    for number in range(FINDINGS_MAX + 3):
        add_segment(files, f"a-{number}", 0, [T0])
        files.remove(f"a-{number}/00000000000000000000.log")
    seen = inspect_directory(files, T0)
    assert len(seen.findings) == FINDINGS_MAX + 1
    assert "more things" in seen.findings[-1].sentence


def test_a_real_directory_is_left_as_it_is(tmp_path: Path) -> None:
    files = OsFiles(tmp_path)
    add_segment(files, "t-0", 0, [T0, T0 + 5])
    files.replace("meta.properties", b"version=1\n")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    for path in tmp_path.rglob("*.*"):
        path.chmod(0o400)
    seen = inspect_directory(OsFiles(tmp_path), T0 + 5)
    assert [(topic.name, topic.partitions) for topic in seen.topics] == [("t", 1)]
    assert seen.findings == ()
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")} == before


def test_a_partition_that_vanishes_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    add_segment(files, "t-0", 0, [T0])
    add_segment(files, "t-0", 1, [T0])
    real = files.size

    def size(path: str) -> int:
        if path.endswith("00000000000000000000.log") and files.exists(path):
            files.remove(path)
        return real(path)

    monkeypatch.setattr(files, "size", size)
    seen = inspect_directory(files, T0)
    assert [segment.base_offset for each in seen.partitions for segment in each.segments] == [1]
    assert sentences(seen, unhealthy=True) == []
