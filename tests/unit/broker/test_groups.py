"""The way from a group's name to its coordinator."""

import threading

import pytest

from ottla.broker import groups as room
from ottla.broker.cluster_state import ClusterState
from ottla.broker.coordinator_loop import CoordinatorLoop
from ottla.broker.groups import RETRY_MS
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, NewTopic
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.groups.effects import DeleteResult, Reply
from ottla.core.groups.gate import CoordinatorStatus
from ottla.core.groups.placement import coordinator_partition
from ottla.storage.partition_log import PartitionLog


def test_s0_4_each_partition_of_the_offsets_topic_has_a_coordinator_of_its_own(api) -> None:
    groups = api.node.groups
    assert groups.partition_of("test-group") == 12

    async def take() -> list[CoordinatorLoop]:
        return [groups.loop(12), groups.loop(12), groups.loop(13)]

    one, same, other = api.runner.run(take())
    assert one is same
    assert one.partition.name == (CONSUMER_OFFSETS, 12)
    assert one.coordinator is not other.coordinator


def test_every_coordinator_is_loaded_at_start(make_api) -> None:
    first = make_api()
    first.cluster.topics.create(NewTopic(name=CONSUMER_OFFSETS, partitions=5))
    assert len(make_api(files=first.files).node.groups.loops()) == 5


def test_without_an_offsets_topic_there_is_no_coordinator(api) -> None:
    assert api.node.groups.loops() == []


def test_when_the_offsets_topic_is_deleted_the_coordinators_go(api) -> None:
    api.ask(12, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    api.ask(20, 5, timeout=1000, topic_names=[CONSUMER_OFFSETS])
    assert api.node.groups.loops() == []


def test_answers_find_the_one_who_waits_and_only_once(api) -> None:
    told: list[tuple[str, object]] = []
    groups = api.node.groups
    first, second = (groups.wait_for(lambda result, who=who: told.append((who, result))) for who in ("first", "second"))
    groups._deliver(Reply(to=second, result=DeleteResult(error=ErrorCode.NONE)))
    assert told == [("second", DeleteResult(error=ErrorCode.NONE))]
    assert list(groups._waiting) == [first]


def test_an_answer_that_cannot_be_given_keeps_nobody_else_from_theirs(api) -> None:
    failed: list[Exception] = []

    class Asked:
        fail = failed.append

    waiting = api.node.groups.wait_for(lambda _result: 1 / 0, Asked)
    api.node.groups._deliver(Reply(to=waiting, result=DeleteResult(error=ErrorCode.NONE)))
    assert [type(error) for error in failed] == [ZeroDivisionError]
    assert api.node.groups._waiting == {}


def test_a_disk_that_fails_leaves_nobody_waiting(api, monkeypatch) -> None:
    def full(*_args, **_kwargs) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(PartitionLog, "append_records", full)
    with pytest.raises(StorageError):
        api.ask(12, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    assert api.node.groups._waiting == {}


def test_an_offsets_partition_that_cannot_be_read_costs_its_own_groups_only(make_api, monkeypatch, caplog) -> None:
    first = make_api()
    first.cluster.topics.create(NewTopic(name=CONSUMER_OFFSETS, partitions=5))
    for number in range(5):
        first.files.make_directory(f"{CONSUMER_OFFSETS}-{number}")
    open_log = PartitionLog.open

    def fail(log, now_ms, **checkpoints):
        if log.directory == f"{CONSUMER_OFFSETS}-3":
            raise StorageError("cannot read it: the disk reports an error; check the device")
        return open_log(log, now_ms, **checkpoints)

    monkeypatch.setattr(PartitionLog, "open", fail)
    second = make_api(files=first.files)
    groups = second.node.groups
    assert len(groups.loops()) == 4
    assert f"{CONSUMER_OFFSETS}-3: its groups are not served: cannot read it" in caplog.text
    assert groups.loop(3) is None
    heartbeat = {"group_id": group_in(3, 5), "generation_id": 1, "member_id": "m", "group_instance_id": None}
    assert second.ask(12, 4, **heartbeat).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    monkeypatch.setattr(PartitionLog, "open", open_log)
    second.now_ms += RETRY_MS
    assert second.ask(12, 4, **heartbeat).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "its log is being opened"
    second.runner.run(second.cluster.partitions.settle())
    second.now_ms += RETRY_MS
    assert second.ask(12, 4, **heartbeat).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def group_in(partition: int, partitions: int) -> str:
    """A group whose coordinator lives in that partition."""
    return next(name for name in map(str, range(1000)) if coordinator_partition(name, partitions) == partition)


COMMIT = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


def commit(api, group: str, topic: str, offset: int) -> int:
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    answer = api.ask(8, 9, group_id=group, topics=[{"name": topic, "partitions": [part]}], **COMMIT)
    return answer.topics[0].partitions[0].error_code


def committed(api, group: str) -> dict[str, int]:
    answer = api.ask(9, 7, group_id=group, topics=None, require_stable=False)
    assert answer.error_code == ErrorCode.NONE
    return {topic.name: topic.partitions[0].committed_offset for topic in answer.topics}


@pytest.fixture
def slow_loading(make_api, monkeypatch):
    """A broker whose group `g` has offsets of topics `t` and `u`, opened again, with a log that is read when `release` is set."""
    first = make_api({"offsets.topic.num.partitions": "1"})
    for topic in ("t", "u"):
        first.cluster.topics.create(NewTopic(name=topic, partitions=1))
        assert commit(first, "g", topic, 5) == ErrorCode.NONE
    release, read = threading.Event(), room.load_groups

    def slow(log, lane):
        assert release.wait(10)
        return read(log, lane)

    monkeypatch.setattr(room, "load_groups", slow)
    monkeypatch.setattr(ClusterState, "loaded", _at_once)
    api = make_api(files=first.files)
    yield api, release
    release.set()


async def _at_once(_cluster, _seconds_max) -> None:
    pass


def test_while_a_coordinator_reads_its_log_it_says_so_and_then_serves(slow_loading) -> None:
    api, release = slow_loading
    heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert api.ask(12, 4, **heartbeat).error_code == ErrorCode.NONE
    assert api.ask(16, 4, states_filter=[]).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    release.set()
    api.runner.run(api.node.groups.loaded())
    assert committed(api, "g") == {"t": 5, "u": 5}
    assert commit(api, "g", "t", 6) == ErrorCode.NONE


def test_a_topic_deleted_while_a_coordinator_loads_takes_its_offsets_along(slow_loading) -> None:
    api, release = slow_loading
    api.ask(20, 5, timeout=1000, topic_names=["t"])
    release.set()
    api.runner.run(api.node.groups.loaded())
    assert committed(api, "g") == {"u": 5}


def test_a_topic_deleted_while_a_coordinator_loads_is_known_to_the_next_one(slow_loading) -> None:
    api, release = slow_loading

    async def move() -> None:
        api.cluster.delete_topic("t")
        api.node.groups.resign(0)
        api.node.groups.take([0])
        release.set()
        await api.node.groups.loaded()

    api.runner.run(move())
    assert committed(api, "g") == {"u": 5}
    assert api.cluster.deleted_unserved == {}


@pytest.mark.parametrize("place", ["load_groups", "begin"])
def test_a_coordinator_that_fails_unexpectedly_while_it_loads_does_not_load_for_ever(make_api, monkeypatch, caplog, place) -> None:
    first = make_api({"offsets.topic.num.partitions": "1"})
    first.cluster.topics.create(NewTopic(name="t", partitions=1))
    assert commit(first, "g", "t", 5) == ErrorCode.NONE
    with monkeypatch.context() as patch:
        patch.setattr(*((room, place) if place == "load_groups" else (CoordinatorLoop, place)), lambda *_: 1 / 0)
        api = make_api(files=first.files)
    assert "__consumer_offsets-0: its groups are not served: division by zero" in caplog.text
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    api.now_ms += RETRY_MS
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    api.settle()
    assert committed(api, "g") == {"t": 5}


def test_a_mistake_in_one_coordinator_keeps_nothing_else_from_going_on(make_api, caplog) -> None:
    api = make_api({"offsets.topic.num.partitions": "2"})
    api.cluster.topics.create(NewTopic(name="t", partitions=1))
    one, other = group_in(0, 2), group_in(1, 2)
    for group in (one, other):
        assert commit(api, group, "t", 5) == ErrorCode.NONE
    api.node.groups.loop(0)._append = lambda *_, **__: 1 / 0
    api.ask(20, 5, timeout=1000, topic_names=["t"])
    assert committed(api, other) == {}
    assert "__consumer_offsets-0: its groups are not served: division by zero" in caplog.text
    api.now_ms += RETRY_MS
    api.runner.run(_take_and_load(api))
    assert committed(api, one) == {}, "it is done when the log is read again"
    api.node.groups.loop(1)._clock = lambda: 1 / 0
    api.node.groups.drop()
    assert api.node.groups.loops() == []


async def _take_and_load(api) -> None:
    api.node.groups.loop(0)
    await api.node.groups.loaded()


def test_a_coordinator_that_has_moved_on_forgets_what_it_was_reading(slow_loading, caplog) -> None:
    api, release = slow_loading

    async def resign_and_take() -> None:
        api.node.groups.resign(0)
        release.set()
        api.node.groups.take([0])
        await api.node.groups.loaded()

    api.runner.run(resign_and_take())
    (loop,) = api.node.groups.loops()
    assert loop.coordinator.status is CoordinatorStatus.ACTIVE
    assert committed(api, "g") == {"t": 5, "u": 5}


def test_a_log_that_cannot_be_read_is_read_again_later(make_api, monkeypatch, caplog) -> None:
    first = make_api({"offsets.topic.num.partitions": "1"})
    first.cluster.topics.create(NewTopic(name="t", partitions=1))
    assert commit(first, "g", "t", 5) == ErrorCode.NONE
    read = room.load_groups

    def fail(_log, _lane):
        raise StorageError("the disk reports an error")

    monkeypatch.setattr(room, "load_groups", fail)
    api = make_api(files=first.files)
    assert "__consumer_offsets-0: its groups are not served: the disk reports an error" in caplog.text
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    monkeypatch.setattr(room, "load_groups", read)
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is too early"
    api.now_ms += RETRY_MS
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    api.settle()
    assert committed(api, "g") == {"t": 5}


def test_who_leads_says_so_in_kafkas_words(api, caplog) -> None:
    with caplog.at_level("INFO", "ottla.broker.groups"):
        api.ask(12, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
        api.node.groups.resign(3)
    assert "[GroupCoordinator id=1] Elected as the group coordinator for partition 3 in epoch 0." in caplog.messages
    assert "[GroupCoordinator id=1] Resigned as the group coordinator for partition 3." in caplog.messages
