"""Partitions: opened at first use, with the settings in force, and gone with their topic."""

import asyncio
import re
import threading

import pytest

from ottla.broker import partitions
from ottla.broker.partitions import log_settings
from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.storage.partition_log import PartitionLog


def test_a_partitions_files_appear_with_its_first_append(api) -> None:
    topic = api.cluster.topics.ensure("t")
    partition = api.cluster.partitions.get(topic, 0)
    assert not api.files.exists("t-0")
    partition.log.append_records([Record(0, 5, None, b"x")], now_ms=5)
    assert api.files.exists("t-0/00000000000000000000.log")
    assert api.cluster.partitions.get(topic, 0) is partition


def test_what_there_is_not(api) -> None:
    topic = api.cluster.topics.ensure("t")
    assert api.cluster.partitions.get(topic, 1) is None
    assert api.cluster.partitions.get(topic, -1) is None
    assert api.cluster.partitions.by_name("gone", 0) is None


def test_a_logs_settings_are_the_topics_then_the_brokers(make_api) -> None:
    api = make_api({"log.segment.bytes": "2000000", "message.max.bytes": "555"})
    topic = api.cluster.topics.ensure("t")
    topic.configs["max.message.bytes"] = "77"
    settings = log_settings(api.cluster.catalogue, topic)
    assert (settings.segment_bytes, settings.max_message_bytes, settings.segment_ms) == (2000000, 77, 604800000)


def test_waiters_are_woken_and_told_of_the_end(api) -> None:
    topic = api.cluster.topics.ensure("t")
    partition = api.cluster.partitions.get(topic, 0)
    woken: list[bool] = []
    partition.waiters.add(lambda: woken.append(partition.deleted))

    async def grow_and_go() -> None:
        partition.grew()
        api.cluster.partitions.delete(topic)

    api.runner.run(grow_and_go())
    assert woken == [False, True]


def test_a_full_segment_is_made_durable_off_the_loop(make_api) -> None:
    api = make_api({"log.segment.bytes": "1048576"})
    partition = api.cluster.partitions.get(api.cluster.topics.ensure("t"), 0)

    async def fill() -> None:
        for _ in range(3):
            partition.log.append_records([Record(0, 5, None, bytes(700_000))], now_ms=5)
            partition.grew()
        assert partition.log.rolled_segments > 0
        await api.cluster.partitions.settle()

    api.runner.run(fill())
    assert (partition.log.rolled_segments, partition.syncing) == (0, None)


def test_a_torn_tail_is_cut_and_said(make_api, caplog) -> None:
    first = make_api()
    topic = first.cluster.topics.ensure("t")
    first.cluster.partitions.get(topic, 0).log.append_records([Record(0, 5, None, b"x")], now_ms=5)
    first.files.open("t-0/00000000000000000000.log").append(b"torn")
    second = make_api(files=first.files)
    assert second.cluster.partitions.by_name("t", 0).log.log_end_offset == 1
    assert "t-0: 4 bytes of a torn tail were cut; the log ends at offset 1" in caplog.text


def close(api) -> None:
    """Closes the cluster alone; the fixture closes the rest."""

    async def close_cluster() -> None:
        api.cluster.close()

    api.runner.run(close_cluster())


def append(api, name: str = "t", number: int = 0, count: int = 1) -> None:
    partition = api.cluster.partitions.by_name(name, number)
    partition.log.append_records([Record(0, 5, None, b"x")] * count, now_ms=5)
    partition.grew()


def test_a_deleted_topic_may_be_made_again_at_once_and_its_files_go_later(make_api) -> None:
    api = make_api({"log.segment.delete.delay.ms": "20"})
    api.cluster.topics.ensure("t")
    append(api, count=5)

    async def delete_and_make_again() -> None:
        assert api.cluster.delete_topic("t") is None
        (away,) = [name for name in api.files.list("") if name.endswith("-delete")]
        assert re.fullmatch(r"t-0\.[0-9a-f]{32}-delete", away)
        api.cluster.topics.ensure("t")
        append(api)
        assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 1
        async with asyncio.timeout(5):
            while api.files.exists(away):
                await asyncio.sleep(0.005)
        assert api.files.exists("t-0/00000000000000000000.log")

    api.runner.run(delete_and_make_again())


def test_a_deleted_topic_leaves_no_checkpoint_for_the_next_of_its_name(api) -> None:
    api.cluster.topics.ensure("t")
    append(api, count=5)
    api.cluster.partitions.by_name("t", 0).log.flush()

    async def checkpoint_and_delete() -> None:
        await api.cluster.log_manager.checkpoint()
        assert b"t 0 5" in api.files.read_all("recovery-point-offset-checkpoint")
        api.cluster.delete_topic("t")
        await api.cluster.deletions.write()

    api.runner.run(checkpoint_and_delete())
    assert api.files.read_all("recovery-point-offset-checkpoint") == b"0\n1\n__cluster_metadata 0 6\n"


def test_partitions_that_were_never_used_since_the_start_are_deleted_too(make_api) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first)
    close(first)
    second = make_api(files=first.files)

    async def delete() -> None:
        second.cluster.delete_topic("t")

    second.runner.run(delete())
    assert not second.files.exists("t-0")


def test_files_of_an_earlier_topic_of_the_name_are_put_aside_not_read(make_api, caplog) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=5)
    before = first.files.read_all("t-0/partition.metadata")
    moved = first.cluster.partitions

    async def delete_as_a_crash_leaves_it() -> None:
        moved.delete = lambda _topic: None  # the catalogue has it, the files are still there
        first.cluster.delete_topic("t")

    first.runner.run(delete_as_a_crash_leaves_it())
    second = make_api(files=first.files)
    assert "1 directories belong to no topic and are left alone: t-0" in caplog.text
    second.cluster.topics.ensure("t")
    assert second.cluster.partitions.by_name("t", 0).log.log_end_offset == 0
    append(second)
    (stray,) = [name for name in second.files.list("") if name.endswith("-stray")]
    assert second.files.read_all(f"{stray}/partition.metadata") == before
    assert second.files.read_all("t-0/partition.metadata") != before
    assert f"t-0 belongs to an earlier topic of that name: it is kept as {stray}" in caplog.text


def test_names_of_long_topics_stay_file_names(api) -> None:
    name = "x" * 249
    api.cluster.topics.ensure(name)
    append(api, name)

    async def delete() -> None:
        api.cluster.delete_topic(name)

    api.runner.run(delete())
    (away,) = [each for each in api.files.list("") if each.endswith("-delete")]
    assert len(away) == 255
    # Apache Kafka does not start on a directory of this kind that has no partition number.
    assert re.fullmatch(r"x+-0\.[0-9a-f]{32}-delete", away)


def test_a_borrowed_log_is_given_back_as_it_was(make_api) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=3)
    with first.cluster.partitions.borrowed(first.cluster.topics.get("t"), 0) as log:
        assert log is first.cluster.partitions.by_name("t", 0).log
    close(first)
    second = make_api(files=first.files)
    with second.cluster.partitions.borrowed(second.cluster.topics.get("t"), 0) as log:
        assert log.log_end_offset == 3
    assert second.cluster.partitions.opened() == ()
    assert list(second.cluster.partitions.all()) == [(second.cluster.topics.get("t"), 0)]


def test_a_borrowed_log_is_closed_when_its_borrower_fails(make_api, monkeypatch) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=3)
    close(first)
    second = make_api(files=first.files)
    closed: list[bool] = []
    close_log = PartitionLog.close

    def close_and_tell(log, *, clean=True) -> None:
        closed.append(clean)
        close_log(log, clean=clean)

    monkeypatch.setattr(PartitionLog, "close", close_and_tell)
    topic = second.cluster.topics.get("t")
    with pytest.raises(StorageError, match="no room"), second.cluster.partitions.borrowed(topic, 0):
        raise StorageError("no room")
    assert (closed, second.cluster.partitions.opened()) == ([False], ())
    assert second.cluster.partitions.get(topic, 0).log.log_end_offset == 3


def test_a_topics_settings_are_looked_up_once_and_never_in_a_worker_thread(make_api, monkeypatch) -> None:
    first = make_api({"num.partitions": "3"})
    first.cluster.topics.ensure("t")
    for number in range(3):
        append(first, number=number)
    asked: list[str] = []

    def look_up(catalogue, topic):
        asked.append(threading.current_thread().name)
        return log_settings(catalogue, topic)

    monkeypatch.setattr(partitions, "log_settings", look_up)
    second = make_api(files=first.files)
    assert len(second.cluster.partitions.opened()) == 3
    assert asked == [threading.current_thread().name]


def test_what_fails_to_close_is_named_and_the_next_start_recovers(make_api, caplog, monkeypatch) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    first.cluster.topics.ensure("u")
    append(first, "t")
    append(first, "u")
    close_log = PartitionLog.close

    def fail(log, *, clean=True) -> None:
        if log.directory == "t-0":
            raise StorageError("cannot sync t-0: the disk reports an error")
        close_log(log, clean=clean)

    monkeypatch.setattr(PartitionLog, "close", fail)
    close(first)
    assert "t-0 is not closed cleanly and will be recovered: cannot sync t-0" in caplog.text
    assert not first.files.exists(".kafka_cleanshutdown")
    monkeypatch.undo()
    second = make_api(files=first.files)
    assert [(each.name.topic, each.log.log_end_offset) for each in second.cluster.partitions.opened()] == [("t", 1), ("u", 1)]


@pytest.mark.parametrize("torn", [b"", b"version: 0\ntopic_id: AbC", bytes(45), None])
def test_a_topic_id_that_a_power_failure_tore_is_written_again(make_api, torn: bytes | None) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=2)
    before = first.files.read_all("t-0/partition.metadata")
    first.files.remove("t-0/partition.metadata")
    if torn is not None:
        first.files.replace("t-0/partition.metadata", torn)
    second = make_api(files=first.files)
    assert second.cluster.partitions.by_name("t", 0).log.log_end_offset == 2
    assert second.files.read_all("t-0/partition.metadata") == before


def test_what_fails_off_the_loop_is_said_and_keeps_nobody_from_stopping(api, caplog, monkeypatch) -> None:
    api.cluster.topics.ensure("t")
    partition = api.cluster.partitions.by_name("t", 0)

    async def fail_and_settle() -> None:
        def fail(_log) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(PartitionLog, "begin_flush", fail)
            append(api)
            partition.sync_soon()
            await api.cluster.partitions.settle()

    api.runner.run(fail_and_settle())
    assert "ZeroDivisionError" in caplog.text


def test_a_topic_is_not_deleted_while_a_partition_of_it_is_being_opened(make_api, monkeypatch) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=3)
    close(first)
    second = make_api(files=first.files)
    go_on, open_log = threading.Event(), PartitionLog.open

    def fail(*_values, **_checkpoints):
        raise StorageError("cannot read t-0: the disk reports an error")

    def slow(log, now_ms, **checkpoints):
        assert go_on.wait(5)
        return open_log(log, now_ms, **checkpoints)

    async def open_and_delete() -> None:
        monkeypatch.setattr(PartitionLog, "open", fail)
        with pytest.raises(StorageError):
            second.cluster.partitions.by_name("t", 0)
        second.now_ms += partitions.RETRY_MS
        monkeypatch.setattr(PartitionLog, "open", slow)
        with pytest.raises(StorageError):
            second.cluster.partitions.by_name("t", 0)
        await asyncio.sleep(0.01)
        with pytest.raises(StorageError, match="a partition of t is being opened"):
            second.cluster.delete_topic("t")
        assert second.cluster.topics.get("t") is not None
        go_on.set()
        await second.cluster.partitions.settle()
        assert second.cluster.partitions.by_name("t", 0).log.log_end_offset == 3
        assert second.cluster.delete_topic("t") is None

    second.runner.run(open_and_delete())


def test_a_partition_is_tried_again_whatever_the_last_try_came_to(make_api, monkeypatch, caplog) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=3)
    close(first)
    second = make_api(files=first.files)
    errors = [StorageError("the disk reports an error"), ZeroDivisionError()]

    def fail(*_values, **_checkpoints):
        raise errors.pop(0)

    async def ask() -> None:
        second.now_ms += partitions.RETRY_MS
        with pytest.raises(StorageError):
            second.cluster.partitions.by_name("t", 0)
        await second.cluster.partitions.settle()

    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "open", fail)
        for _ in range(2):
            second.runner.run(ask())
    second.runner.run(ask())
    assert second.cluster.partitions.by_name("t", 0).log.log_end_offset == 3
    assert "ZeroDivisionError" in caplog.text


def test_nothing_is_opened_after_the_end(make_api) -> None:
    api = make_api()
    topic = api.cluster.topics.ensure("t")
    close(api)
    with pytest.raises(StorageError, match="the broker has stopped"):
        api.cluster.partitions.get(topic, 0)
