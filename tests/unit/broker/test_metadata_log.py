"""The metadata log, and `meta.properties`."""

import logging
import re
from random import Random

import pytest

from ottla.broker.metadata_log import Identity, MetadataLog, identify
from ottla.broker.partitions.offset_checkpoints import OffsetCheckpoints
from ottla.config import BrokerConfig
from ottla.log.checkpoints import META_PROPERTIES
from ottla.log.file_system import Files, MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.adoption import FIRST_FEATURES, SnapshotId, first_snapshot
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.records import AbortTransaction, FeatureLevelRecord, RemoveTopicRecord, TopicRecord, encode
from ottla.metadata.topic_changes import create_topic
from ottla.metadata.topics import METADATA_DIRECTORY, NewTopic
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, split_batches
from tests.support.kit.faulty_files import FaultyFiles, overwrite

KAFKAS = b"#\n#Sat Nov 21 16:58:08 UTC 2026\nnode.id=1\ndirectory.id=Dnbhe9euQOueYWf09wF0QA\nversion=1\ncluster.id=a4NPSR88w9IV_yapR9ghJw\n"

IDENTITY = Identity("a-cluster", bytes(range(100, 116)), is_new=False)
BEGIN = b"\x01\x17\x00\x00"
FIRST = SnapshotId(0, 0).file_name
LOG_FILE = f"{METADATA_DIRECTORY}/{0:020d}.log"


def test_a_new_directory_gets_its_ids_once() -> None:
    files = MemoryFiles()
    made = identify(files, 1)
    assert made.is_new
    text = files.read_all(META_PROPERTIES).decode()
    assert re.fullmatch(r"version=1\ncluster\.id=[\w-]{22}\nnode\.id=1\ndirectory\.id=[\w][\w-]{21}\n", text)
    assert identify(files, 1) == made._replace(is_new=False)
    assert files.read_all(META_PROPERTIES).decode() == text


def test_what_kafkas_tool_wrote_is_read_and_left_alone() -> None:
    files = MemoryFiles()
    files.replace(META_PROPERTIES, KAFKAS)
    found = identify(files, 1)
    assert (found.cluster_id, found.directory_id.hex()) == ("a4NPSR88w9IV_yapR9ghJw", "0e76e17bd7ae40eb9e6167f4f7017440")
    assert files.read_all(META_PROPERTIES) == KAFKAS


def test_a_directory_from_before_directory_ids_gets_one() -> None:
    files = MemoryFiles()
    files.replace(META_PROPERTIES, b"version=1\ncluster.id=c\nnode.id=1\n")
    found = identify(files, 1)
    assert (found.cluster_id, len(found.directory_id)) == ("c", 16)
    assert identify(files, 1) == found


@pytest.mark.parametrize(
    "name", ["flights-0/0.log", "__cluster_metadata-0/0.log", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"]
)
def test_data_without_the_file_are_refused_and_it_is_not_made(name: str) -> None:
    files = MemoryFiles()
    directory, slash, _ = name.partition("/")
    if slash:
        files.make_directory(directory)
    files.replace(name, b"x")
    with pytest.raises(
        StorageError, match=rf"meta.properties is missing, but the directory holds data \({re.escape(directory)}\): restore"
    ):
        identify(files, 1)
    assert not files.exists(META_PROPERTIES)


def test_files_of_others_do_not_make_a_directory_used() -> None:
    files = MemoryFiles()
    files.replace(".lock", b"")
    files.replace("README.txt", b"x")
    files.make_directory("lost+found")
    assert identify(files, 1).is_new


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"version=1\n", "names no cluster.id"),
        (b"cluster.id=x\nnode.id=1\n", "version=1"),
        (b"version=1\ncluster.id=x\nnode.id=7\n", "belongs to node 7, but this broker is node 1: set node.id=7"),
        (b"version=0\nbroker.id=1\ncluster.id=x\n", "with ZooKeeper"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=abc\n", "an invalid directory.id"),
        (b"\xff\xfe", "names no cluster.id"),
    ],
)
def test_a_directory_that_is_not_ours_is_left_alone(text: bytes, words: str) -> None:
    files = MemoryFiles()
    files.replace(META_PROPERTIES, text)
    with pytest.raises(StorageError, match=words):
        identify(files, 1)
    assert files.read_all(META_PROPERTIES) == text


def open_log(files: Files, *, after_crash: bool = False) -> MetadataLog:
    log = unopened(files)
    log.open(1, IDENTITY, after_crash=after_crash)
    return log


def unopened(files: Files, node_id: int = 1) -> MetadataLog:
    checkpoints = OffsetCheckpoints(files)
    checkpoints.load()
    return MetadataLog(files, ClusterMetadata((node_id,), BrokerConfig({}).text), lambda: 5, checkpoints)


def write_log(files: MemoryFiles, *values: bytes, leader_epoch: int = 3) -> None:
    """A log as Apache Kafka leaves it."""
    log = PartitionLog(files, METADATA_DIRECTORY, LogSettings(), leader_epoch=leader_epoch)
    log.open(5)
    for value in values:
        log.append_records([Record(0, 5, None, value)], now_ms=5)
    log.close()


def read_log(files: MemoryFiles) -> list[tuple[int, bytes]]:
    """The leader epoch and value of each record."""
    log = PartitionLog(files, METADATA_DIRECTORY, LogSettings())
    log.open(5)
    return [(header.leader_epoch, record.value or b"") for header, found in log.read_batches(log.log_start_offset) for record in found]


def test_it_replays_what_it_kept() -> None:
    files = MemoryFiles()
    first = open_log(files)
    first.append(create_topic(first.cluster_metadata, NewTopic(name="t", partitions=3, configs={"retention.ms": "9"}), bytes(range(16))))
    second = open_log(files)
    assert second.cluster_metadata.topics == first.cluster_metadata.topics
    assert second.cluster_metadata.topics["t"].replica_assignments == [((1,), (IDENTITY.directory_id,))] * 3
    assert second.cluster_metadata.features == FIRST_FEATURES


def test_nothing_is_true_that_could_not_be_kept(monkeypatch) -> None:
    log = open_log(MemoryFiles())

    def full(*_args, **_kwargs) -> None:
        raise StorageError("full")

    monkeypatch.setattr(PartitionLog, "append_records", full)
    with pytest.raises(StorageError):
        log.append(create_topic(log.cluster_metadata, NewTopic(name="t"), bytes(16)))
    assert log.cluster_metadata.topics == {}


@pytest.mark.parametrize("value", [b"", b"\x02\x02\x00", encode(RemoveTopicRecord(topic_id=bytes(16)))])
def test_a_record_that_cannot_be_replayed_stops_the_start(value: bytes) -> None:
    files = MemoryFiles()
    write_log(files, value)
    with pytest.raises(StorageError, match="offset 0 cannot be replayed"):
        open_log(files)


def test_a_new_directory_names_its_voters_for_kafka() -> None:
    files = MemoryFiles()
    open_log(files)
    assert files.read_all(f"{METADATA_DIRECTORY}/{FIRST}") == first_snapshot(1, IDENTITY.directory_id, 5)
    before_that_was_written = MemoryFiles()
    write_log(before_that_was_written, encode(TopicRecord(name="t", topic_id=bytes(16))))
    open_log(before_that_was_written)
    assert before_that_was_written.exists(f"{METADATA_DIRECTORY}/{FIRST}")


def test_a_log_that_names_its_voters_is_left_with_them() -> None:
    files = MemoryFiles()
    log = PartitionLog(files, METADATA_DIRECTORY, LogSettings())
    log.open(5)
    leader_change = Record(0, 5, b"\0\0\0\x02", bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00"))
    log.append(encode_batch([leader_change], is_control=True), now_ms=5, from_client=False)
    log.close()
    open_log(files)
    assert not files.exists(f"{METADATA_DIRECTORY}/{FIRST}")


@pytest.mark.parametrize("voters", ["02 00000001 00", "03 00000001 00 00000002 00"])
def test_a_directory_of_several_controllers_is_refused_and_left_alone(voters: str) -> None:
    files = MemoryFiles()
    log = PartitionLog(files, METADATA_DIRECTORY, LogSettings())
    log.open(5)
    value = bytes.fromhex(f"0000 00000001 {voters} 02 00000001 00 00")
    log.append(encode_batch([Record(0, 5, b"\0\0\0\x02", value)], is_control=True), now_ms=5, from_client=False)
    log.close()
    before = read_log(files)
    cluster_metadata = unopened(files, node_id=2)
    with pytest.raises(StorageError, match="only a node that is broker and single controller"):
        cluster_metadata.open(2, IDENTITY, after_crash=True)
    assert read_log(files) == before


def test_it_goes_on_in_kafkas_leader_epoch() -> None:
    files = MemoryFiles()
    write_log(files, encode(FeatureLevelRecord(name="metadata.version", level=30)), leader_epoch=7)
    log = open_log(files)
    log.append([TopicRecord(name="t", topic_id=bytes(16))])
    log.close()
    assert [epoch for epoch, _ in read_log(files)] == [7, 7]


def test_a_crash_raises_the_leader_epochs() -> None:
    files = MemoryFiles()
    first = open_log(files)
    first.append(create_topic(first.cluster_metadata, NewTopic(name="t", partitions=2), bytes(16)))
    assert open_log(files).cluster_metadata.topics["t"].leader_epochs == [0, 0]
    assert open_log(files, after_crash=True).cluster_metadata.topics["t"].leader_epochs == [1, 1]


def test_an_unfinished_transaction_is_aborted_before_anything_is_appended() -> None:
    files = MemoryFiles()
    write_log(
        files, encode(FeatureLevelRecord(name="metadata.version", level=30)), BEGIN, encode(TopicRecord(name="t", topic_id=bytes(16)))
    )
    log = open_log(files)
    assert log.cluster_metadata.topics == {}
    log.append([TopicRecord(name="u", topic_id=bytes(16))])
    log.close()
    assert [value for _, value in read_log(files)][3:] == [encode(AbortTransaction()), encode(TopicRecord(name="u", topic_id=bytes(16)))]
    assert list(open_log(files).cluster_metadata.topics) == ["u"]


def snapshot(*values: bytes, is_finished: bool = True) -> bytes:
    whole = first_snapshot(1, IDENTITY.directory_id, 5)
    foot_at = 12 + int.from_bytes(whole[8:12])
    records = [Record(number, 5, None, value) for number, value in enumerate(values, start=3)]
    return whole[:foot_at] + bytes(encode_batch(records, base_offset=3)) + (whole[foot_at:] if is_finished else b"")


def test_the_newest_snapshot_stands_for_what_lies_before_it() -> None:
    files = MemoryFiles()
    old, new = (encode(TopicRecord(name=name, topic_id=name.encode() * 16)) for name in ("o", "n"))
    write_log(files, b"\x01\x14\x00\x00", b"\x01\x14\x00\x00", new)
    files.replace(f"{METADATA_DIRECTORY}/{SnapshotId(0, 0).file_name}", snapshot(encode(TopicRecord(name="x", topic_id=bytes(16)))))
    files.replace(
        f"{METADATA_DIRECTORY}/{SnapshotId(2, 9).file_name}", snapshot(old, encode(FeatureLevelRecord(name="metadata.version", level=30)))
    )
    log = open_log(files)
    assert list(log.cluster_metadata.topics) == ["o", "n"]
    log.append([RemoveTopicRecord(topic_id=b"o" * 16)])
    log.close()
    assert read_log(files)[-1][0] == 9


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (SnapshotId(1, 3), snapshot(b"\x01\x14\x00\x00", is_finished=False), "was not written to its end"),
        (SnapshotId(1, 3), b"\0" * 80, "cannot be read"),
        (SnapshotId(9, 3), snapshot(b"\x01\x14\x00\x00"), "its newest snapshot ends at 9"),
    ],
)
def test_a_damaged_snapshot_stops_the_start(name: SnapshotId, data: bytes, words: str) -> None:
    files = MemoryFiles()
    write_log(files, b"\x01\x14\x00\x00", b"\x01\x14\x00\x00")
    files.replace(f"{METADATA_DIRECTORY}/{name.file_name}", data)
    with pytest.raises(StorageError, match=words):
        open_log(files)


def test_what_kafkas_tool_formatted_begins_as_it_was_asked_to() -> None:
    files = MemoryFiles()
    files.make_directory(METADATA_DIRECTORY)
    files.replace(f"{METADATA_DIRECTORY}/{FIRST}", first_snapshot(1, IDENTITY.directory_id, 1))
    files.replace("bootstrap.checkpoint", snapshot(encode(FeatureLevelRecord(name="metadata.version", level=30))))
    log = open_log(files)
    log.close()
    assert log.cluster_metadata.features == {"metadata.version": 30}
    assert [value for _, value in read_log(files)] == [encode(FeatureLevelRecord(name="metadata.version", level=30))]


def test_partitions_without_cluster_metadata_are_refused() -> None:
    files = MemoryFiles()
    files.make_directory("flights-0")
    with pytest.raises(StorageError, match=r"holds partitions \(flights-0\), but no __cluster_metadata-0"):
        open_log(files)


def test_records_that_are_not_enforced_are_logged(caplog) -> None:
    files = MemoryFiles()
    write_log(files, b"\x01\x0a\x00\x00")
    with caplog.at_level(logging.WARNING):
        open_log(files)
    assert "the cluster has delegation tokens: this broker does not enforce them" in caplog.text


def test_a_change_that_could_not_be_synced_is_refused_like_all_after_it_until_the_next_start_shows() -> None:
    memory = MemoryFiles()
    files = FaultyFiles(memory, Random(1))
    first = open_log(files)
    files.fail_next_sync()
    with pytest.raises(StorageError, match="injected fault"):
        first.append(create_topic(first.cluster_metadata, NewTopic(name="t"), bytes(range(16))))
    with pytest.raises(StorageError, match="takes no more records"):
        first.append(create_topic(first.cluster_metadata, NewTopic(name="u"), bytes(range(1, 17))))
    assert first.cluster_metadata.topics == {}
    assert list(open_log(memory, after_crash=True).cluster_metadata.topics) == ["t"]


def test_a_change_that_found_no_room_is_undone_and_the_next_one_counts() -> None:
    files = FaultyFiles(MemoryFiles(), Random(1))
    first = open_log(files)
    files.fail_next_write(after_bytes=3)
    with pytest.raises(StorageError, match="injected fault"):
        first.append(create_topic(first.cluster_metadata, NewTopic(name="t"), bytes(range(16))))
    first.append(create_topic(first.cluster_metadata, NewTopic(name="u"), bytes(range(1, 17))))
    first.close()
    assert list(open_log(files).cluster_metadata.topics) == ["u"]


def with_topics(*names: str) -> MemoryFiles:
    """A directory whose broker was killed: the checkpoint is the one of the start, when there were no topics yet."""
    files = MemoryFiles()
    checkpoints = OffsetCheckpoints(files)
    log = MetadataLog(files, ClusterMetadata((1,), BrokerConfig({}).text), lambda: 5, checkpoints)
    log.open(1, IDENTITY, after_crash=True)
    checkpoints.write()
    for number, name in enumerate(names):
        log.append(create_topic(log.cluster_metadata, NewTopic(name=name, partitions=1), bytes([number]) * 16))
    return files


def batches(files: MemoryFiles) -> list[tuple[int, int]]:
    """Position and first offset of each batch."""
    return [(at, header.base_offset) for at, header in split_batches(files.read_all(LOG_FILE))]


@pytest.mark.parametrize("behind_header", [False, True])
def test_a_flipped_byte_before_whole_batches_stops_the_start_and_nothing_is_cut(behind_header: bool) -> None:
    files = with_topics("a", "b")
    position, offset = batches(files)[1]
    at = position + (70 if behind_header else 9)
    overwrite(files, LOG_FILE, at, bytes([files.read_all(LOG_FILE)[at] ^ 1]))
    before = files.read_all(LOG_FILE)
    words = rf"{LOG_FILE} is damaged at byte {position}: \d+ bytes from offset {offset} on are lost.* Nothing was changed: restore"
    with pytest.raises(StorageError, match=words):
        open_log(files, after_crash=True)
    assert files.read_all(LOG_FILE) == before


def test_a_last_write_that_was_cut_short_is_cut_and_said(caplog) -> None:
    files = with_topics("a", "b")
    position, offset = batches(files)[-1]
    files.open(LOG_FILE).truncate(position + 30)
    assert list(open_log(files, after_crash=True).cluster_metadata.topics) == ["a"]
    assert f"30 bytes of a torn tail were cut; the log ends at offset {offset} ({LOG_FILE}, from byte {position} on)" in caplog.text


@pytest.mark.parametrize("bytes_left", [0, 40, None])
def test_a_log_that_was_emptied_or_shortened_after_a_clean_end_stops_the_start(bytes_left: int | None) -> None:
    files = MemoryFiles()
    checkpoints = OffsetCheckpoints(files)
    log = MetadataLog(files, ClusterMetadata((1,), BrokerConfig({}).text), lambda: 5, checkpoints)
    log.open(1, IDENTITY, after_crash=False)
    log.append(create_topic(log.cluster_metadata, NewTopic(name="t"), bytes(16)))
    checkpoints.write()
    log.close()
    # A whole batch less, or next to nothing left; also where the log's own snapshot went with it.
    files.open(LOG_FILE).truncate(batches(files)[-1][0] if bytes_left is None else bytes_left)
    for name in [name for name in files.list(METADATA_DIRECTORY) if name.endswith(".snapshot")]:
        files.remove(f"{METADATA_DIRECTORY}/{name}")
    before = files.read_all(LOG_FILE)
    with pytest.raises(StorageError, match=r"offsets? \d+.* lost.*Nothing was changed: restore the data directory from a copy"):
        open_log(files)
    assert files.read_all(LOG_FILE) == before


def test_an_emptied_log_of_kafkas_is_refused_where_there_are_partitions() -> None:
    """Apache Kafka keeps no checkpoint of its metadata log's end."""
    files = MemoryFiles()
    files.make_directory(METADATA_DIRECTORY)
    files.open(LOG_FILE)
    files.replace(f"{METADATA_DIRECTORY}/{FIRST}", first_snapshot(1, IDENTITY.directory_id, 5))
    files.make_directory("flights-0")
    with pytest.raises(StorageError, match="or its log was emptied"):
        open_log(files)


def test_a_header_that_was_damaged_after_a_clean_end_hides_nothing_behind_it() -> None:
    """Only the end of the log is looked at then: what is replayed must reach it all the same."""
    files = MemoryFiles()
    log = open_log(files)
    for number in range(100):
        log.append(create_topic(log.cluster_metadata, NewTopic(name=f"t{number}"), bytes([number]) * 16))
    log.close()
    position, _ = batches(files)[2]
    overwrite(files, LOG_FILE, position + 16, b"\x07")
    with pytest.raises(StorageError, match=f"{LOG_FILE} is damaged at byte {position}"):
        open_log(files)


def test_a_file_missing_in_the_middle_stops_the_start() -> None:
    files = MemoryFiles()
    log = PartitionLog(files, METADATA_DIRECTORY, LogSettings(segment_bytes=100))
    log.open(5)
    for number in range(6):
        log.append_records([Record(0, 5, None, encode(TopicRecord(name=f"t{number}", topic_id=bytes([number]) * 16)))], now_ms=5)
    log.close()
    files.remove(f"{METADATA_DIRECTORY}/{2:020d}.log")
    with pytest.raises(StorageError, match=f"{METADATA_DIRECTORY}: offsets 2 to 2 are missing"):
        open_log(files)


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_flipped_byte_is_never_silent_wherever_it_is(is_clean: bool, caplog) -> None:
    """But in a batch's leader epoch, which its checksum leaves out and no topic depends on."""
    files = with_topics("a", "b")
    if is_clean:
        open_log(files).close()
    whole, starts = files.read_all(LOG_FILE), batches(files)
    last_at, _ = starts[-1]
    epochs = {at + byte for at, _ in starts for byte in range(12, 16)}
    said = set()
    for at in sorted(set(range(len(whole))) - epochs):
        copy = MemoryFiles()
        copy.make_directory(METADATA_DIRECTORY)
        for name in files.list(METADATA_DIRECTORY):
            copy.replace(f"{METADATA_DIRECTORY}/{name}", files.read_all(f"{METADATA_DIRECTORY}/{name}"))
        overwrite(copy, LOG_FILE, at, bytes([whole[at] ^ 0x10]))
        caplog.clear()
        try:
            open_log(copy, after_crash=not is_clean)
        except StorageError as error:
            said.add("refused" if METADATA_DIRECTORY in str(error) else f"without a name: {error}")
            continue
        assert not is_clean, "all of it was durable"
        assert at >= last_at, "whole batches were behind it"
        assert "bytes of a torn tail were cut" in caplog.text
        said.add("cut")
    assert said == ({"refused"} if is_clean else {"refused", "cut"})
