"""The log manager: the start after a clean end and after a crash, retention of what is in use and what is not, checkpoints, the marker."""

import asyncio
import re
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.config import BrokerConfig
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.testing.waiting import wait_until

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
MARKER = ".kafka_cleanshutdown"


def cluster_on(files: MemoryFiles, *, now_ms: int = NOW_MS, **settings: str) -> Components:
    config = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = Components(files, BrokerConfig(config), clock=lambda: now_ms)
    cluster.open()
    return cluster


def make_topic(cluster: Components, name: str = "t", partitions: int = 1, **configs: str) -> Any:
    return cluster.topics.create(NewTopic(name=name, partitions=partitions, configs={k.replace("_", "."): v for k, v in configs.items()}))


def fill(cluster: Components, name: str = "t", number: int = 0, *, segments: int = 3, timestamp_ms: int = NOW_MS) -> Any:
    """One record of 700 kB a segment."""
    partition = cluster.partitions.by_name(name, number)
    assert partition is not None
    for _ in range(segments):
        partition.log.append_records([Record(0, timestamp_ms, b"k", bytes(700_000))], now_ms=timestamp_ms)
        partition.log.sync_rolled()
    return partition


def run(steps: Any) -> None:
    asyncio.run(steps)


def test_a_clean_end_is_marked_and_the_next_start_opens_nothing() -> None:
    async def steps() -> None:
        files = MemoryFiles()
        first = cluster_on(files)
        make_topic(first)
        fill(first)
        assert not files.exists(MARKER)
        first.close()
        assert files.read_all(MARKER) == b'{"version":0,"brokerEpoch":-1}'
        assert files.read_all("recovery-point-offset-checkpoint") == b"0\n2\n__cluster_metadata 0 6\nt 0 3\n"
        second = cluster_on(files)
        assert not files.exists(MARKER)
        assert second.partitions.opened() == ()
        partition = await second.partitions.open(second.topics.get("t"), 0)
        assert partition is not None
        assert (partition.log.log_end_offset, partition.log.recovery_point) == (3, 3)
        second.close()

    run(steps())


def test_what_the_checkpoints_say_of_partitions_that_a_topic_does_not_have_is_forgotten() -> None:
    async def steps() -> None:
        files = MemoryFiles()
        first = cluster_on(files)
        make_topic(first, partitions=2)
        fill(first)
        first.close()
        lines = b"0\n4\n__cluster_metadata 0 6\nt 0 3\nt 1 7\nt 2 9\n"  # the last partition, and the number behind it
        files.replace("recovery-point-offset-checkpoint", lines)
        cluster_on(files).close()
        kept = files.read_all("recovery-point-offset-checkpoint")
        assert b"t 1 7" in kept
        assert b"t 2" not in kept

    run(steps())


def test_after_a_crash_every_partition_with_files_is_open_before_the_first_request(caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> None:
        files = MemoryFiles()
        first = cluster_on(files)
        make_topic(first, partitions=4)
        for number in (0, 2):
            fill(first, number=number, segments=1)
        files.open("t-2/00000000000000000000.log").append(b"torn")
        second = cluster_on(files)
        assert {partition.name for partition in second.partitions.opened()} == {("t", 0), ("t", 2)}
        assert [partition.log.log_end_offset for partition in second.partitions.opened()] == [1, 1]
        second.close()
        assert files.exists(MARKER)

    run(steps())
    assert "t-2: 4 bytes of a torn tail were cut; the log ends at offset 1" in caplog.text


class OneFails(MemoryFiles):
    """Nothing in one directory can be opened while it is broken."""

    broken: str | None = None

    def open(self, path: str) -> Any:
        if self.broken is not None and path.startswith(self.broken):
            raise StorageError(f"cannot open {path}: the disk reports an error; check the device")
        return super().open(path)


def test_a_partition_that_cannot_be_recovered_is_offline_and_the_others_live(caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> None:
        files = OneFails()
        first = cluster_on(files)
        make_topic(first, partitions=2)
        fill(first, number=0, segments=1)
        fill(first, number=1, segments=1)
        files.broken = "t-1/"
        now_ms = NOW_MS
        second = Components(files, BrokerConfig({}), clock=lambda: now_ms)
        second.open()
        healthy = second.partitions.by_name("t", 0)
        assert healthy is not None
        assert healthy.log.log_end_offset == 1
        for _ in range(3):
            with pytest.raises(StorageError, match="the disk reports an error"):
                second.partitions.by_name("t", 1)
        assert list(second.partitions.offline()) == [TopicPartition("t", 1)]

        files.broken = None
        with pytest.raises(StorageError):
            second.partitions.by_name("t", 1)  # not tried again yet
        now_ms += 10_000
        with pytest.raises(StorageError):
            second.partitions.by_name("t", 1)  # tried in a worker thread
        await second.partitions.settle()
        recovered = second.partitions.by_name("t", 1)
        assert recovered is not None
        assert recovered.log.log_end_offset == 1
        assert second.partitions.offline() == {}
        second.close()

    run(steps())
    assert len([record for record in caplog.records if record.message.startswith("t-1 is offline: ")]) == 1
    assert "t-1 could be opened and takes records again" in caplog.text


def test_an_end_with_a_partition_offline_is_not_called_clean() -> None:
    async def steps() -> None:
        files = OneFails()
        first = cluster_on(files)
        make_topic(first)
        fill(first, segments=1)
        files.broken = "t-0/"
        second = cluster_on(files)
        second.close()
        assert not files.exists(MARKER)

    run(steps())


def test_a_directory_that_could_not_be_opened_at_all_is_not_touched() -> None:
    files = MemoryFiles()
    files.replace("meta.properties", b"version=1\ncluster.id=x\nnode.id=7\n")
    cluster = Components(files, BrokerConfig({}))
    with pytest.raises(StorageError):
        cluster.open()
    cluster.close()
    assert not files.exists(MARKER)
    assert not files.exists("recovery-point-offset-checkpoint")


def test_directories_of_no_topic_are_named_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> None:
        files = MemoryFiles()
        first = cluster_on(files)
        first.close()
        for name in ("gone-0", "t-0.0123-delete", "old-1.0123-stray", "photos-to-delete"):
            files.make_directory(name)
            files.open(f"{name}/00000000000000000000.log")
        second = cluster_on(files)
        second.close()
        assert files.exists("gone-0")
        assert files.exists("old-1.0123-stray")
        assert files.exists("photos-to-delete/00000000000000000000.log")
        assert not files.exists("t-0.0123-delete")

    run(steps())
    assert "1 directories belong to no topic and are left alone: gone-0" in caplog.text


def test_a_partition_whose_directory_is_gone_is_named_at_the_start_and_its_offsets_when_it_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def steps() -> None:
        files = MemoryFiles()
        first = cluster_on(files)
        make_topic(first)
        fill(first)
        first.close()
        files.remove_directory("t-0")
        second = cluster_on(files)
        assert "1 partitions had records at the last checkpoint, and their directories are gone: t-0" in caplog.text
        partition = await second.partitions.open(second.topics.get("t"), 0)
        assert partition is not None
        assert partition.log.log_end_offset == 0
        second.close()

    run(steps())
    assert "t-0: t-0 ends at offset 0, but was synced up to offset 3" in caplog.text
    assert "offsets 0 to 2 are lost" in caplog.text


def test_a_log_that_was_emptied_after_a_clean_end_is_logged_with_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> None:
        files = MemoryFiles()
        first = cluster_on(files)
        make_topic(first)
        fill(first, segments=1)
        first.close()
        files.open("t-0/00000000000000000000.log").truncate(0)
        second = cluster_on(files)
        assert await second.partitions.open(second.topics.get("t"), 0) is not None
        second.close()

    run(steps())
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "t-0 ends at offset 0, but was synced up to offset 1" in line.getMessage()


def test_checkpoints_of_a_topic_whose_deletion_a_crash_cut_short_are_not_believed() -> None:
    async def steps() -> None:
        files = MemoryFiles()
        first = cluster_on(files)
        make_topic(first)
        fill(first, segments=3).log.delete_records(3)
        await first.log_manager.checkpoint()
        first.partitions.delete = lambda _topic: None  # type: ignore[method-assign]
        first.topic_deletion.delete("t")
        assert files.read_all("log-start-offset-checkpoint") == b"0\n1\nt 0 3\n"
        second = cluster_on(files)
        assert files.read_all("log-start-offset-checkpoint") == b"0\n0\n"
        make_topic(second)
        await second.partitions.open(second.topics.get("t"), 0)
        fill(second, segments=1)
        third = cluster_on(files)  # after another crash
        partition = third.partitions.by_name("t", 0)
        assert partition is not None
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 1)
        third.close()

    run(steps())


@pytest.mark.parametrize("in_use", [True, False])
def test_old_segments_go_whether_the_partition_is_in_use_or_not(in_use: bool) -> None:
    async def steps() -> None:
        files = MemoryFiles()
        cluster = cluster_on(files)
        make_topic(cluster, segment_bytes="1048576", retention_ms=str(DAY_MS), file_delete_delay_ms="0")
        fill(cluster, segments=3, timestamp_ms=NOW_MS - 2 * DAY_MS)
        fill(cluster, segments=1)
        if not in_use:
            cluster.close()
            cluster = cluster_on(files)
        await cluster.log_manager.expire_segments()
        assert "00000000000000000000.log" not in files.list("t-0")
        async with asyncio.timeout(60):
            while any(name.endswith(".deleted") for name in files.list("t-0")):
                await asyncio.sleep(0.001)
        cluster.close()
        assert [name for name in files.list("t-0") if name.endswith((".log", ".deleted"))] == ["00000000000000000003.log"]
        again = cluster_on(files)
        assert (await again.partitions.open(again.topics.get("t"), 0)).log.log_start_offset == 3

    run(steps())


def test_looking_for_old_segments_opens_nothing_for_good() -> None:
    async def steps() -> None:
        files = MemoryFiles()
        first = cluster_on(files)
        make_topic(first, segment_bytes="1048576", retention_ms=str(DAY_MS))
        fill(first, segments=3)
        first.close()
        cluster = cluster_on(files)
        await cluster.log_manager.expire_segments()
        assert cluster.partitions.opened() == ()
        cluster.close()

    run(steps())


def test_a_compacted_topic_keeps_its_old_segments() -> None:
    async def steps() -> None:
        files = MemoryFiles()
        cluster = cluster_on(files)
        make_topic(cluster, segment_bytes="1048576", retention_ms="1", retention_bytes="1", cleanup_policy="compact")
        fill(cluster, segments=3, timestamp_ms=NOW_MS - 2 * DAY_MS)
        await cluster.log_manager.expire_segments()
        assert cluster.partitions.by_name("t", 0).log.log_start_offset == 0  # type: ignore[union-attr]
        cluster.close()

    run(steps())


def test_recovery_points_are_written_when_asked_for() -> None:
    async def steps() -> None:
        files = MemoryFiles()
        cluster = cluster_on(files)
        make_topic(cluster)
        fill(cluster, segments=1).log.flush()
        await cluster.log_manager.checkpoint_recovery_points()
        assert files.read_all("recovery-point-offset-checkpoint") == b"0\n2\n__cluster_metadata 0 6\nt 0 1\n"
        assert not files.exists("replication-offset-checkpoint")
        cluster.close()

    run(steps())


def test_the_periodic_work_runs_by_kafkas_settings() -> None:
    async def steps() -> None:
        files = MemoryFiles()
        settings = {
            "log.initial.task.delay.ms": "1",
            "log.retention.check.interval.ms": "1",
            "log.flush.offset.checkpoint.interval.ms": "1",
            "log.flush.start.offset.checkpoint.interval.ms": "1",
            "producer.id.expiration.check.interval.ms": "1",
        }
        cluster = Components(files, BrokerConfig(settings), clock=lambda: NOW_MS)
        cluster.open()
        cluster.log_manager.start()
        make_topic(cluster, segment_bytes="1048576", retention_ms=str(DAY_MS))
        fill(cluster, segments=3, timestamp_ms=NOW_MS - 2 * DAY_MS)
        fill(cluster, segments=1)
        async with asyncio.timeout(60):
            while not files.exists("log-start-offset-checkpoint") or b"t 0 3" not in files.read_all("log-start-offset-checkpoint"):
                await asyncio.sleep(0.005)
        assert b"t 0 4" in files.read_all("replication-offset-checkpoint")
        cluster.close()

    run(steps())


def test_work_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> None:
        files = MemoryFiles()
        cluster = Components(files, BrokerConfig({"log.initial.task.delay.ms": "0", "log.flush.offset.checkpoint.interval.ms": "1"}))
        cluster.open()
        make_topic(cluster)
        fill(cluster, segments=1)
        kept = files.replace
        failures = iter([StorageError("cannot write it: the disk is full"), RuntimeError("a bug")])

        def fail(path: str, data: Any, *, sync: bool = True) -> None:
            for failure in failures:
                raise failure
            kept(path, data, sync=sync)

        files.replace = fail  # type: ignore[method-assign]
        cluster.log_manager.start()
        async with asyncio.timeout(60):
            while not files.exists("replication-offset-checkpoint") or "it is tried again" not in caplog.text:
                await asyncio.sleep(0.002)
        cluster.close()

    run(steps())
    assert "cannot write it: the disk is full" in caplog.text
    assert "work on the logs failed; it is tried again" in caplog.text


def test_a_long_recovery_and_a_long_end_say_how_far_they_are(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_until_logged(words: str) -> None:
        wait_until(lambda: words in caplog.text, words, seconds=60)

    class Slow(MemoryFiles):
        is_slow = False

        def list(self, directory: str) -> list[str]:
            if self.is_slow and directory.startswith("t-"):
                wait_until_logged("recovering after a crash")
            return super().list(directory)

    async def steps() -> None:
        files = Slow()
        first = cluster_on(files)
        make_topic(first, partitions=4)
        for number in range(4):
            fill(first, number=number, segments=1)
        monkeypatch.setattr("ottla.broker.partitions.partitions.PROGRESS_S", 0.02)
        files.is_slow = True
        second = cluster_on(files)
        assert len(second.partitions.opened()) == 4
        close_log = PartitionLog.close

        def slow(log: PartitionLog, *, clean: bool = True) -> None:
            wait_until_logged("stopping")
            close_log(log, clean=clean)

        monkeypatch.setattr(PartitionLog, "close", slow)
        second.close()

    run(steps())
    assert re.search(r"recovering after a crash: \d of 4 partitions are open, after \d+ s", caplog.text)
    assert re.search(r"stopping: \d of 4 partitions are closed, after \d+ s", caplog.text)


def test_the_end_of_the_metadata_log_is_written_soon_after_a_change() -> None:
    async def steps() -> None:
        files = MemoryFiles()
        cluster = cluster_on(files)
        await cluster.log_manager.checkpoint_metadata()
        before = files.read_all("recovery-point-offset-checkpoint")
        make_topic(cluster)
        await cluster.log_manager.checkpoint_metadata()
        after = files.read_all("recovery-point-offset-checkpoint")
        assert re.findall(rb"__cluster_metadata 0 \d+", after) > re.findall(rb"__cluster_metadata 0 \d+", before)
        files.remove("recovery-point-offset-checkpoint")
        await cluster.log_manager.checkpoint_metadata()
        assert not files.exists("recovery-point-offset-checkpoint"), "nothing has changed"
        cluster.log_manager.start()
        make_topic(cluster, name="u")
        async with asyncio.timeout(60):
            while not files.exists("recovery-point-offset-checkpoint"):
                await asyncio.sleep(0.01)
        cluster.close()

    run(steps())
