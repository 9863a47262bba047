"""Partitions: opened at first use, with the settings in force, and gone with their topic."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from ottla.broker.partitions import partitions
from ottla.broker.partitions import partitions as topic_log_settings
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import NotOpen, Opening, Openings, TopicLogSettings, log_settings
from ottla.log.checkpoints import encode_partition_metadata
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.records import NO_LEADER
from ottla.metadata.topics import Topic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record, TopicPartition


async def go_on() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


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
    settings = log_settings(api.cluster.cluster_metadata, topic)
    assert (settings.segment_bytes, settings.max_message_bytes, settings.segment_ms) == (2000000, 77, 604800000)


def test_waiters_are_woken_and_reported_of_the_end(api) -> None:
    topic = api.cluster.topics.ensure("t")
    partition = api.cluster.partitions.get(topic, 0)
    woken: list[bool] = []
    partition.waiters.add(lambda: woken.append(partition.deleted))

    async def grow_and_go() -> None:
        partition.append_records([Record(0, 5, None, b"x")], now_ms=5)
        api.cluster.partitions.delete(topic)
        await api.cluster.partitions.when_moved(["t"])

    api.runner.run(grow_and_go())
    assert woken == [False, True]


def test_a_full_segment_is_made_durable_off_the_loop(make_api) -> None:
    api = make_api({"log.segment.bytes": "1048576"})
    partition = api.cluster.partitions.get(api.cluster.topics.ensure("t"), 0)

    async def fill() -> None:
        for _ in range(3):
            partition.append_records([Record(0, 5, None, bytes(700_000))], now_ms=5)
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
    partition.append_records([Record(0, 5, None, b"x")] * count, now_ms=5)


def test_a_deleted_topic_may_be_made_again_at_once_and_its_files_go_later(make_api) -> None:
    api = make_api({"log.segment.delete.delay.ms": "20"})
    api.cluster.topics.ensure("t")
    append(api, count=5)

    async def delete_and_make_again() -> None:
        assert api.cluster.topic_deletion.delete("t") is None
        await api.cluster.partitions.when_moved(["t"])
        (away,) = [name for name in api.files.list("") if name.endswith("-delete")]
        assert re.fullmatch(r"t-0\.[0-9a-f]{32}-delete", away)
        api.cluster.topics.ensure("t")
        append(api)
        assert api.cluster.partitions.by_name("t", 0).log.log_end_offset == 1
        async with asyncio.timeout(60):
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
        api.cluster.topic_deletion.delete("t")
        await api.cluster.deletions.write()

    api.runner.run(checkpoint_and_delete())
    assert api.files.read_all("recovery-point-offset-checkpoint") == b"0\n1\n__cluster_metadata 0 7\n"


def test_partitions_that_were_never_used_since_the_start_are_deleted_too(make_api) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first)
    close(first)
    second = make_api(files=first.files)

    async def delete() -> None:
        second.cluster.topic_deletion.delete("t")
        await second.cluster.partitions.when_moved(["t"])

    second.runner.run(delete())
    assert not second.files.exists("t-0")


def test_files_of_an_earlier_topic_of_the_name_are_put_aside_not_read(make_api, caplog) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=5)
    before = first.files.read_all("t-0/partition.metadata")
    moved = first.cluster.partitions

    async def delete_as_a_crash_leaves_it() -> None:
        moved.delete = lambda _topic: None  # the cluster metadata has it, the files are still there
        first.cluster.topic_deletion.delete("t")

    first.runner.run(delete_as_a_crash_leaves_it())
    second = make_api(files=first.files)
    assert "1 directories belong to no topic and are left alone: t-0" in caplog.text
    second.cluster.topics.ensure("t")
    assert second.opened("t", 0).log.log_end_offset == 0
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
        api.cluster.topic_deletion.delete(name)
        await api.cluster.partitions.when_moved([name])

    api.runner.run(delete())
    (away,) = [each for each in api.files.list("") if each.endswith("-delete")]
    assert len(away) == 255
    # Apache Kafka does not start on a directory of this kind that has no partition number.
    assert re.fullmatch(r"x+-0\.[0-9a-f]{32}-delete", away)


def test_a_borrowed_log_is_given_back_as_it_was(make_api) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=3)
    own = first.cluster.partitions.by_name("t", 0).log
    assert first.runner.run(first.cluster.partitions.borrow(first.cluster.topics.get("t"), 0, lambda log: log)) is own
    close(first)
    second = make_api(files=first.files)
    topic = second.cluster.topics.get("t")
    assert second.runner.run(second.cluster.partitions.borrow(topic, 0, lambda log: log.log_end_offset)) == 3
    assert second.cluster.partitions.opened() == ()
    assert list(second.cluster.partitions.all()) == [(topic, 0)]


def test_a_borrowed_log_that_is_asked_for_meanwhile_stays_open(make_api, held) -> None:
    first = make_api()
    first.cluster.topics.ensure("t")
    append(first, count=3)
    close(first)
    second = make_api(files=first.files, opening_executor=held)
    topic, partitions = second.cluster.topics.get("t"), second.cluster.partitions

    async def borrow_and_open() -> None:
        borrowing = asyncio.ensure_future(partitions.borrow(topic, 0, lambda log: log.log_end_offset))
        await go_on()
        opening = asyncio.ensure_future(partitions.open(topic, 0))
        await go_on()
        held.run(1)
        assert await borrowing == 3
        assert await opening is partitions.in_use(TopicPartition("t", 0)) is not None
        assert held.held == []

    second.runner.run(borrow_and_open())


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

    def fail(_log) -> None:
        raise StorageError("no room")

    monkeypatch.setattr(PartitionLog, "close", close_and_tell)
    topic = second.cluster.topics.get("t")
    with pytest.raises(StorageError, match="no room"):
        second.runner.run(second.cluster.partitions.borrow(topic, 0, fail))
    assert (closed, second.cluster.partitions.opened()) == ([False], ())
    assert second.opened("t", 0).log.log_end_offset == 3


def test_a_topics_settings_are_looked_up_once_and_never_in_a_worker_thread(make_api, monkeypatch) -> None:
    first = make_api({"num.partitions": "3"})
    first.cluster.topics.ensure("t")
    for number in range(3):
        append(first, number=number)
    asked: list[str] = []

    def look_up(cluster_metadata, topic):
        asked.append(threading.current_thread().name)
        return log_settings(cluster_metadata, topic)

    monkeypatch.setattr(topic_log_settings, "log_settings", look_up)
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


def test_what_fails_off_the_loop_is_logged_and_keeps_nothing_from_stopping(api, caplog, monkeypatch) -> None:
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


def reopened(make_api, held, partitions: int = 1):
    """A broker after a clean stop, that opens partitions when the test says so."""
    first = make_api({"num.partitions": str(partitions)})
    first.cluster.topics.ensure("t")
    for number in range(partitions):
        append(first, number=number, count=3)
    close(first)
    return make_api(files=first.files, opening_executor=held)


def test_one_opening_is_shared_by_all_that_wait_for_it(make_api, held) -> None:
    api = reopened(make_api, held)
    topic, partitions = api.cluster.topics.get("t"), api.cluster.partitions

    async def open_twice() -> None:
        first, second = (asyncio.ensure_future(partitions.open(topic, 0)) for _ in range(2))
        with pytest.raises(NotOpen, match="t-0 is being opened"):
            partitions.get(topic, 0)
        await go_on()
        assert len(held.held) == 1
        held.run()
        assert await first is await second is partitions.get(topic, 0)

    api.runner.run(open_twice())


def test_a_topic_that_is_deleted_while_a_partition_is_being_opened_is_moved_away_afterwards(make_api, held) -> None:
    api = reopened(make_api, held)
    cluster, old = api.cluster, api.cluster.topics.get("t")

    async def open_and_delete() -> None:
        opening = asyncio.ensure_future(cluster.partitions.open(old, 0))
        await go_on()
        assert cluster.topic_deletion.delete("t") is None
        new = cluster.topics.ensure("t")
        assert cluster.partitions.get(old, 0) is None
        with pytest.raises(NotOpen):
            cluster.partitions.get(new, 0)
        await go_on()
        assert api.files.exists("t-0")  # a worker thread is still at it
        assert len(held.held) == 1, "the new topic's partition waits"
        held.run()
        assert await opening is None
        await go_on()
        held.run(1)
        await cluster.partitions.when_moved(["t"])
        assert not api.files.exists("t-0")
        await go_on()
        assert not cluster.partitions.is_ready(new, 0), "only one of the two opens it"
        held.run()
        await go_on()
        assert cluster.partitions.get(new, 0).log.log_end_offset == 0
        append(api)
        assert api.files.read_all("t-0/partition.metadata") == encode_partition_metadata(UUID(bytes=new.topic_id))

    api.runner.run(open_and_delete())


def test_a_leader_that_changes_while_its_partition_is_being_opened_is_the_partitions_leader(make_api, held) -> None:
    first = make_api(brokers=2)
    topic = first.cluster.topics.ensure("t")
    append(first, count=3)
    epoch = topic.leader_epochs[0]
    close(first)
    api = make_api(files=first.files, brokers=2, opening_executor=held)
    topic = api.cluster.topics.get("t")
    there = next(each for each in api.cluster.brokers.nodes if each != topic.leaders[0])

    async def open_and_move() -> None:
        opening = asyncio.ensure_future(api.cluster.partitions.open(topic, 0))
        await go_on()
        assert api.cluster.leadership.move("t", 0, there) is None
        held.run()
        partition = await opening
        assert (partition.leader, partition.log.leader_epoch) == (there, topic.leader_epochs[0])
        assert partition.log.leader_epoch > epoch

    api.runner.run(open_and_move())


def test_settings_that_change_while_a_partition_is_being_opened_hold_for_it(make_api, held) -> None:
    api = reopened(make_api, held)
    topic = api.cluster.topics.get("t")

    async def open_and_change() -> None:
        opening = asyncio.ensure_future(api.cluster.partitions.open(topic, 0))
        await go_on()
        assert api.cluster.topics.alter_config(2, "t", [("max.message.bytes", 0, "77")]) is None
        held.run()
        assert (await opening).log.settings.max_message_bytes == 77

    api.runner.run(open_and_change())


def test_settings_of_the_broker_reach_very_many_open_logs_over_several_iterations(make_api, monkeypatch) -> None:
    monkeypatch.setattr(topic_log_settings, "_RENEWED_PER_ITERATION", 4)
    api = make_api({"num.partitions": "10"})
    topic = api.cluster.topics.ensure("t")
    logs = [api.cluster.partitions.get(topic, number).log for number in range(10)]

    async def change() -> list[int]:
        api.cluster.topics.alter_config(4, "", [("message.max.bytes", 0, "77")])
        counts = []
        while True:
            counts.append(sum(log.settings.max_message_bytes == 77 for log in logs))
            if counts[-1] == 10:
                return counts
            await asyncio.sleep(0)

    assert api.runner.run(change())[:2] == [4, 4]
    assert [log.settings.max_message_bytes for log in logs] == [77] * 10


def test_a_stop_waits_for_what_is_being_opened_and_stays_clean(make_api, held) -> None:
    api = reopened(make_api, held, 2)
    topic = api.cluster.topics.get("t")

    async def open_and_stop() -> None:
        openings = [asyncio.ensure_future(api.cluster.partitions.open(topic, number)) for number in range(2)]
        await go_on()
        api.cluster.close()  # runs what is held
        outcomes = await asyncio.gather(*openings, return_exceptions=True)
        assert [str(each) for each in outcomes] == [f"t-{number} is not opened: the broker has stopped" for number in range(2)]

    api.runner.run(open_and_stop())
    assert api.files.exists(".kafka_cleanshutdown")
    again = make_api(files=api.files)
    assert [again.opened("t", number).log.log_end_offset for number in range(2)] == [3, 3]


def test_a_directory_that_cannot_be_renamed_is_named_and_the_next_topic_puts_it_aside(api, caplog, monkeypatch) -> None:
    api.cluster.topics.ensure("t")
    append(api, count=5)

    def fail(_log, _away) -> bool:
        raise StorageError("cannot rename t-0: the disk reports an error")

    async def delete() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(PartitionLog, "move_away", fail)
            api.cluster.topic_deletion.delete("t")
            await api.cluster.partitions.when_moved(["t"])

    api.runner.run(delete())
    assert "t-0 of the deleted topic stays: cannot rename t-0" in caplog.text
    api.cluster.topics.ensure("t")
    assert api.opened("t", 0).log.log_end_offset == 0
    assert [name for name in api.files.list("") if name.endswith("-stray")]


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


def test_who_knows_a_partition_of_a_deleted_topic_sees_that_at_once(api) -> None:
    api.cluster.topics.ensure("t")
    partition = api.cluster.partitions.by_name("t", 0)

    async def delete() -> tuple[bool, int]:
        api.cluster.topic_deletion.delete("t")
        return partition.deleted, partition.leader

    assert api.runner.run(delete()) == (True, NO_LEADER), "a fetch session would read it for the next topic of that name"


NAME = TopicPartition("t", 0)


class Outcomes:
    """The results and errors of openings."""

    def __init__(self) -> None:
        self.loaded: list[tuple[object, bool]] = []
        self.failed: list[tuple[str, bool]] = []
        self.threads: list[threading.Thread] = []

    def opening(self, load, *, is_wanted: bool = True) -> Opening[object]:
        def loaded(result: object, wanted: bool) -> None:
            self.threads.append(threading.current_thread())
            self.loaded.append((result, wanted))

        return Opening(load, loaded, lambda error, wanted: self.failed.append((str(error), wanted)), is_wanted=is_wanted)


def run(steps) -> None:
    async def with_openings() -> None:
        openings = Openings(ThreadPoolExecutor(2))
        await steps(openings, Outcomes())
        openings.close()

    asyncio.run(with_openings())


def test_a_worker_thread_loads_and_the_loop_takes_over() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        await openings.start(NAME, outcomes.opening(threading.current_thread), after=None)
        (thread, is_wanted), *_ = outcomes.loaded
        assert is_wanted
        assert thread is not threading.current_thread()
        assert outcomes.threads == [threading.current_thread()]
        assert openings.under_way() == []

    run(steps)


def test_it_begins_after_what_it_must_wait_for() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        after = asyncio.get_running_loop().create_future()
        task = openings.start(NAME, outcomes.opening(lambda: 1), after=after)
        await asyncio.sleep(0.01)
        assert outcomes.loaded == []
        after.set_result(None)
        await task
        assert outcomes.loaded == [(1, True)]

    run(steps)


def test_what_is_borrowed_and_asked_for_meanwhile_is_wanted() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        assert openings.wanted(NAME) is None
        task = openings.start(NAME, outcomes.opening(lambda: 1, is_wanted=False), after=None)
        assert openings.wanted(NAME) is task
        await task
        await openings.start(NAME, outcomes.opening(lambda: 2, is_wanted=False), after=None)
        assert outcomes.loaded == [(1, True), (2, False)]

    run(steps)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(StorageError("the disk reports an error"), "the disk reports an error"), (ZeroDivisionError("oh"), "t-0 could not be opened")],
)
def test_every_error_is_handed_over(error: Exception, sentence: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise error

    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        await openings.start(NAME, outcomes.opening(fail), after=None)
        ((said, _),) = outcomes.failed
        assert sentence in said
        assert NAME not in openings

    run(steps)
    assert ("Traceback" in caplog.text) == isinstance(error, ZeroDivisionError)


def test_an_opening_of_a_deleted_topic_makes_room_for_the_next() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        assert openings.take_out([NAME]) == ()
        go_on = threading.Event()
        first = openings.start(NAME, outcomes.opening(lambda: go_on.wait(60)), after=None)
        assert openings.take_out([NAME, TopicPartition("t", 1)]) == [first]
        second = openings.start(NAME, outcomes.opening(lambda: 2), after=first)
        go_on.set()
        await asyncio.gather(first, second)
        assert outcomes.loaded == [(True, True), (2, True)]

    run(steps)


def test_a_client_that_gets_the_error_of_an_opening_tries_again() -> None:
    async def steps(openings: Openings, outcomes: Outcomes) -> None:
        opening = openings.start(NAME, outcomes.opening(lambda: 1), after=None)
        assert NotOpen("t-0 is being opened", opening).code is ErrorCode.KAFKA_STORAGE_ERROR
        await opening

    run(steps)


def test_changed_settings_reach_open_logs_some_at_a_time(make_api) -> None:
    api = make_api()
    metadata: ClusterMetadata = api.cluster.cluster_metadata
    topic: Topic = api.cluster.topics.ensure("t")
    settings = TopicLogSettings(metadata)
    before = settings.of(topic)
    assert before == log_settings(metadata, topic)
    topic.configs["max.message.bytes"] = "77"
    assert settings.of(topic) is before
    opened = [Partition(TopicPartition("t", 0), PartitionLog(MemoryFiles(), "t-0", LogSettings())) for _ in range(300)]
    opened[0].deleted = True
    gone = Partition(TopicPartition("gone", 0), PartitionLog(MemoryFiles(), "gone-0", LogSettings()))

    async def change() -> None:
        settings.change(topic, [gone, *opened])
        assert settings.renewing is not None
        assert [each.log.settings.max_message_bytes == 77 for each in opened].count(True) == 254
        await settings.renewing
        assert settings.renewing is None

    asyncio.run(change())
    assert all(each.log.settings is settings.of(topic) for each in opened[1:])
    assert opened[0].log.settings == gone.log.settings == LogSettings()


def test_when_all_change_nothing_remembered_is_left(make_api) -> None:
    api = make_api()
    topic: Topic = api.cluster.topics.ensure("t")
    settings = TopicLogSettings(api.cluster.cluster_metadata)
    before = settings.of(topic)
    settings.change(None, ())
    assert settings.of(topic) is not before
    now = settings.of(topic)
    settings.forget("t")
    assert settings.of(topic) is not now
    assert settings.renewing is None
