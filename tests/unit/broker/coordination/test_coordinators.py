"""The coordinators of brokers: started, loaded, resigned, and started again after a failure."""

import threading
from types import SimpleNamespace

import pytest

from ottla.broker.composition import Components
from ottla.broker.coordination.coordinators import RETRY_MS, ClusterCoordinators, load
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.coordinator.loop import CoordinatorLoop
from ottla.coordinator.placement import coordinator_partition
from ottla.groups.commands import ForgetTopics, JoinGroup
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import CONSUMER_OFFSETS, NewTopic
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey


def test_each_partition_of_the_offsets_topic_has_a_coordinator_of_its_own(api) -> None:
    groups = api.groups
    assert groups.partition_of("test-group") == 12

    async def get() -> list[CoordinatorLoop]:
        return [groups.coordinators.get(12), groups.coordinators.get(12), groups.coordinators.get(13)]

    one, same, other = api.runner.run(get())
    assert one is same
    assert one.partition.name == (CONSUMER_OFFSETS, 12)
    assert one.coordinator is not other.coordinator


def test_every_coordinator_is_loaded_at_start(make_api) -> None:
    first = make_api()
    first.cluster.topics.create(NewTopic(name=CONSUMER_OFFSETS, partitions=5))
    assert len(make_api(files=first.files).groups.coordinators.all()) == 5


def test_without_an_offsets_topic_there_is_no_coordinator(api) -> None:
    assert api.groups.coordinators.all() == []


def test_when_the_offsets_topic_is_deleted_the_coordinators_resign(api) -> None:
    api.ask(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=[CONSUMER_OFFSETS])
    assert api.groups.coordinators.all() == []


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
    groups = second.groups
    assert len(groups.coordinators.all()) == 4
    assert f"{CONSUMER_OFFSETS}-3: its groups are not served: cannot read it" in caplog.text
    assert groups.coordinators.get(3) is None
    heartbeat = {"group_id": group_in(3, 5), "generation_id": 1, "member_id": "m", "group_instance_id": None}
    assert second.ask(ApiKey.HEARTBEAT, 4, **heartbeat).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    monkeypatch.setattr(PartitionLog, "open", open_log)
    second.now_ms += RETRY_MS
    assert second.ask(ApiKey.HEARTBEAT, 4, **heartbeat).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "its log is being opened"
    second.runner.run(second.cluster.partitions.settle())
    second.now_ms += RETRY_MS
    assert second.ask(ApiKey.HEARTBEAT, 4, **heartbeat).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def group_in(partition: int, partitions: int) -> str:
    """A group whose coordinator lives in that partition."""
    return next(name for name in map(str, range(1000)) if coordinator_partition(name, partitions) == partition)


COMMIT = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


def commit(api, group: str, topic: str, offset: int) -> int:
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    answer = api.ask(ApiKey.OFFSET_COMMIT, 9, group_id=group, topics=[{"name": topic, "partitions": [part]}], **COMMIT)
    return answer.topics[0].partitions[0].error_code


def committed(api, group: str) -> dict[str, int]:
    answer = api.ask(ApiKey.OFFSET_FETCH, 7, group_id=group, topics=None, require_stable=False)
    assert answer.error_code == ErrorCode.NONE
    return {topic.name: topic.partitions[0].committed_offset for topic in answer.topics}


@pytest.fixture
def slow_loading(make_api, monkeypatch):
    """A broker whose group `g` has offsets of topics `t` and `u`, opened again, with a log that is read when `release` is set."""
    first = make_api({"offsets.topic.num.partitions": "1"})
    for topic in ("t", "u"):
        first.cluster.topics.create(NewTopic(name=topic, partitions=1))
        assert commit(first, "g", topic, 5) == ErrorCode.NONE
    release, read = threading.Event(), load

    def slow(log, backend):
        assert release.wait(60)
        return read(log, backend)

    monkeypatch.setattr("ottla.broker.coordination.coordinators.load", slow)
    monkeypatch.setattr(Components, "loaded", _at_once)
    api = make_api(files=first.files)
    yield api, release
    release.set()


async def _at_once(_cluster, _seconds_max) -> None:
    pass


def test_a_coordinator_that_loads_its_log_says_so_and_then_serves(slow_loading) -> None:
    api, release = slow_loading
    heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert api.ask(ApiKey.HEARTBEAT, 4, **heartbeat).error_code == ErrorCode.NONE
    assert api.ask(ApiKey.LIST_GROUPS, 4, states_filter=[]).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    release.set()
    api.runner.run(api.groups.coordinators.loaded())
    assert committed(api, "g") == {"t": 5, "u": 5}
    assert commit(api, "g", "t", 6) == ErrorCode.NONE


def test_a_topic_deleted_while_a_coordinator_loads_takes_its_offsets_along(slow_loading) -> None:
    api, release = slow_loading
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    release.set()
    api.runner.run(api.groups.coordinators.loaded())
    assert committed(api, "g") == {"u": 5}


def test_a_topic_deleted_while_a_coordinator_loads_is_known_to_the_next_one(slow_loading) -> None:
    api, release = slow_loading

    async def move() -> None:
        api.cluster.topic_deletion.delete("t")
        api.groups.coordinators.resign(0)
        api.groups.coordinators.start([0])
        release.set()
        await api.groups.coordinators.loaded()

    api.runner.run(move())
    assert committed(api, "g") == {"u": 5}
    assert len(api.cluster.coordinators.undelivered) == 0


@pytest.mark.parametrize("place", ["broker.coordination.coordinators.load", "coordinator.loop.CoordinatorLoop.start"])
def test_a_coordinator_that_fails_unexpectedly_while_it_loads_does_not_stay_in_loading(make_api, monkeypatch, caplog, place) -> None:
    first = make_api({"offsets.topic.num.partitions": "1"})
    first.cluster.topics.create(NewTopic(name="t", partitions=1))
    assert commit(first, "g", "t", 5) == ErrorCode.NONE
    with monkeypatch.context() as patch:
        patch.setattr(f"ottla.{place}", lambda *_: 1 / 0)
        api = make_api(files=first.files)
    assert "__consumer_offsets-0: its groups are not served: division by zero" in caplog.text
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    api.now_ms += RETRY_MS
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    api.settle()
    assert committed(api, "g") == {"t": 5}


def test_a_bug_in_one_coordinator_does_not_stop_the_others(make_api, hooked_files, caplog) -> None:
    api = make_api({"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "3000"}, hooked_files)
    api.cluster.topics.create(NewTopic(name="t", partitions=1))
    one, other = group_in(0, 2), group_in(1, 2)
    for group in (one, other):
        assert commit(api, group, "t", 5) == ErrorCode.NONE
    hooked_files.before_append = lambda path: 1 / 0 if path.startswith(f"{CONSUMER_OFFSETS}-0/") else None
    api.ask(ApiKey.DELETE_TOPICS, 5, timeout=1000, topic_names=["t"])
    assert committed(api, other) == {}
    assert "__consumer_offsets-0: its groups are not served: division by zero" in caplog.text
    hooked_files.before_append = lambda _path: None
    api.now_ms += RETRY_MS
    api.runner.run(_take_and_load(api))
    assert committed(api, one) == {}, "it is done when the log is read again"
    join = JoinGroup(
        reply_to=api.groups.expect_reply(lambda _: 1 / 0), group_id=other, member_id="", instance_id=None, client_id="c", client_host="/",
        session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer", protocols=(("range", b""),), reason=None,
        require_known_member_id=False, supports_skip_assignment=False, new_member_id="m",
    )  # fmt: skip

    async def join_and_resign() -> None:
        api.groups.run(other, join)
        assert len(api.groups.replies) == 1, "it is parked"
        api.groups.coordinators.resign_all()

    api.runner.run(join_and_resign())
    assert api.groups.coordinators.all() == []
    assert "__consumer_offsets-1: its groups are not served: division by zero" in caplog.text


async def _take_and_load(api) -> None:
    api.groups.coordinators.get(0)
    await api.groups.coordinators.loaded()


def test_a_coordinator_that_resigned_while_it_loads_is_started_again(slow_loading, caplog) -> None:
    api, release = slow_loading

    async def resign_and_take() -> None:
        api.groups.coordinators.resign(0)
        release.set()
        api.groups.coordinators.start([0])
        await api.groups.coordinators.loaded()

    api.runner.run(resign_and_take())
    (loop,) = api.groups.coordinators.all()
    assert loop.coordinator.status is CoordinatorStatus.ACTIVE
    assert committed(api, "g") == {"t": 5, "u": 5}


def test_a_log_that_cannot_be_read_is_read_again_later(make_api, monkeypatch, caplog) -> None:
    first = make_api({"offsets.topic.num.partitions": "1"})
    first.cluster.topics.create(NewTopic(name="t", partitions=1))
    assert commit(first, "g", "t", 5) == ErrorCode.NONE
    read = load

    def fail(_log, _backend):
        raise StorageError("the disk reports an error")

    monkeypatch.setattr("ottla.broker.coordination.coordinators.load", fail)
    api = make_api(files=first.files)
    assert "__consumer_offsets-0: its groups are not served: the disk reports an error" in caplog.text
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    monkeypatch.setattr("ottla.broker.coordination.coordinators.load", read)
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is too early"
    api.now_ms += RETRY_MS
    assert commit(api, "g", "t", 6) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    api.settle()
    assert committed(api, "g") == {"t": 5}


def test_elections_and_resignations_are_logged_as_in_kafka(api, caplog) -> None:
    with caplog.at_level("INFO", "ottla.broker.coordination.coordinators"):
        api.ask(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
        api.groups.coordinators.resign(3)
    assert "[GroupCoordinator id=1] Elected as the group coordinator for partition 3 in epoch 0." in caplog.messages
    assert "[GroupCoordinator id=1] Resigned as the group coordinator for partition 3." in caplog.messages


# The coordinators of all brokers: which broker starts which, and in which partitions deleted topics are kept.


class Loops:
    """The coordinators of a broker that leads and serves some partitions; notes its calls."""

    def __init__(self, leads: set[int], serves: set[int]) -> None:
        self._leads, self.serves = leads, serves
        self.calls: list[object] = []

    def leads(self, number: int) -> bool:
        return number in self._leads

    def start(self, numbers: list[int]) -> None:
        self.calls.append(("start", numbers))

    def resign(self, number: int) -> None:
        self.calls.append(("resign", number))

    def resign_all(self) -> None:
        self.calls.append("resign_all")

    def run_everywhere(self, command: object) -> set[int]:
        self.calls.append(("run", command))
        return self.serves


@pytest.fixture
def coordinators() -> ClusterCoordinators:
    metadata = SimpleNamespace(topics={CONSUMER_OFFSETS: SimpleNamespace(leaders=[1, 2, 1, 2])})
    made = ClusterCoordinators(CONSUMER_OFFSETS, cluster_metadata=metadata)  # type: ignore[arg-type]
    made.by_broker = {1: Loops({0, 2}, {0}), 2: Loops({1, 3}, {1, 3})}  # type: ignore[dict-item]
    return made


def calls(coordinators: ClusterCoordinators) -> list[list[object]]:
    return [loops.calls for loops in coordinators.by_broker.values()]  # type: ignore[attr-defined]


def test_each_broker_starts_the_coordinators_of_partitions_that_it_leads(coordinators) -> None:
    coordinators.start([0, 1, 2])
    assert calls(coordinators) == [[("start", [0, 2])], [("start", [1])]]


def test_one_or_all_resign(coordinators) -> None:
    coordinators.resign(3)
    coordinators.resign_broker(2)
    coordinators.resign_all()
    assert calls(coordinators) == [[("resign", 3), "resign_all"], [("resign", 3), "resign_all", "resign_all"]]


FORGET_T, FORGET_U = ForgetTopics(topics=("t",)), ForgetTopics(topics=("u",))


def test_a_command_to_all_waits_for_partitions_that_are_not_served(coordinators) -> None:
    for command in (FORGET_T, FORGET_U, FORGET_T):
        coordinators.run_everywhere(command)
    assert len(coordinators.undelivered) == 1
    assert [coordinators.undelivered.take(number) for number in range(4)] == [[], [], [FORGET_T, FORGET_U], []]
    assert len(coordinators.undelivered) == 0


def test_without_the_topic_nothing_waits(coordinators) -> None:
    coordinators.undelivered.add(2, FORGET_T)
    coordinators.resign_all()
    coordinators._cluster_metadata.topics.clear()
    coordinators.run_everywhere(FORGET_T)
    assert len(coordinators.undelivered) == 0
