"""Commands to coordinators and replies back; loading and events of groups."""

import asyncio
import json
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.broker.coordination.groups import COMPILED_BYTES_MIN, LoadingBackends, PendingReplies
from ottla.broker.running_brokers import BrokerTask
from ottla.config import BrokerConfig
from ottla.coordinator.effects import Reply
from ottla.groups.commands import DeleteResult, Heartbeat, HeartbeatResult, Result
from ottla.groups.events import GroupEvent
from ottla.groups.log.replayed_state import ReferenceReducer
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.arrow import primitives
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.wire.api_keys import ApiKey


def heartbeat(api, results: list[Result]) -> Heartbeat:
    return Heartbeat(reply_to=api.groups.expect_reply(results.append), group_id="test-group", generation=1, member_id="m", instance_id=None)


def run(api, results: list[Result]) -> None:
    async def run() -> None:
        api.groups.run("test-group", heartbeat(api, results))

    api.runner.run(run())


def test_a_group_belongs_to_the_partition_that_its_id_hashes_to(api) -> None:
    assert api.groups.partition_of("test-group") == 12
    assert len(api.cluster.topics.get(CONSUMER_OFFSETS).leaders) == 50, "the topic is created at its first use"


def test_the_coordinator_of_the_partition_runs_the_command(api) -> None:
    results: list[Result] = []
    run(api, results)
    assert results == [HeartbeatResult(error=ErrorCode.UNKNOWN_MEMBER_ID)]
    assert [loop.coordinator.partition for loop in api.groups.coordinators.all()] == [12]


def test_a_broker_that_does_not_lead_the_partition_refuses(make_api) -> None:
    api = make_api(brokers=2)
    results: list[Result] = []
    number = api.groups.partition_of("test-group")
    leader = api.cluster.topics.get(CONSUMER_OFFSETS).leaders[number]
    run(api.on(3 - leader), results)
    assert results == [HeartbeatResult(error=ErrorCode.NOT_COORDINATOR)]


def test_a_heartbeat_without_a_command_needs_a_coordinator_that_runs(api) -> None:
    async def ask() -> ErrorCode | None:
        return api.groups.fast_heartbeat("test-group", 1, "m", None)

    assert api.runner.run(ask()) is None


def test_a_disk_that_fails_leaves_no_request_waiting(api, monkeypatch) -> None:
    def full(*_args, **_kwargs) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(PartitionLog, "append_records", full)
    with pytest.raises(StorageError):
        api.ask(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    assert len(api.groups.replies) == 0


# Pending replies: each is delivered once, and a failure of one does not prevent the others.

RESULT = DeleteResult(error=ErrorCode.NONE)


class Request:
    """A request that notes the errors with which it failed."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def fail(self, error: Exception) -> None:
        self.failures.append(error)


def divide_by_zero(_result: Any) -> None:
    raise ZeroDivisionError


def test_a_reply_goes_to_its_request_and_only_once() -> None:
    replies, answers = PendingReplies(), []
    first, second = (replies.expect(lambda result, name=name: answers.append((name, result))) for name in ("first", "second"))
    replies.deliver(Reply(to=second, result=RESULT))
    assert answers == [("second", RESULT)]
    with pytest.raises(KeyError):
        replies.deliver(Reply(to=second, result=RESULT))
    replies.deliver(Reply(to=first, result=RESULT))
    assert len(replies) == 0


def test_a_response_that_cannot_be_sent_fails_its_request_only() -> None:
    replies, request = PendingReplies(), Request()
    reply_to = replies.expect(divide_by_zero, request)  # type: ignore[arg-type]
    replies.deliver(Reply(to=reply_to, result=RESULT))
    assert [type(error) for error in request.failures] == [ZeroDivisionError]
    assert len(replies) == 0


def test_without_a_request_the_failure_is_the_callers() -> None:
    replies = PendingReplies()
    with pytest.raises(ZeroDivisionError):
        replies.deliver(Reply(to=replies.expect(divide_by_zero), result=RESULT))


def test_a_request_without_a_reply_fails_and_others_wait_on() -> None:
    replies, request = PendingReplies(), Request()
    reply_to = replies.expect(divide_by_zero, request)  # type: ignore[arg-type]
    replies.expect(divide_by_zero)
    replies.fail(reply_to, OSError())
    replies.fail(reply_to, OSError())
    assert [type(error) for error in request.failures] == [OSError]
    assert len(replies) == 1


def test_a_cancelled_reply_is_forgotten() -> None:
    replies = PendingReplies()
    replies.cancel(replies.expect(divide_by_zero))
    replies.cancel(0)
    assert len(replies) == 0


def event(kind: str = "trigger") -> GroupEvent:
    return GroupEvent(at_ms=1, group="g", kind=kind, generation=0, state_from="Empty", state_to="PreparingRebalance", trigger="JOIN_NEW")


def make(callback=None, files: MemoryFiles | None = None) -> Components:
    cluster = Components(files or MemoryFiles(), BrokerConfig({}), clock=lambda: 5, on_group_event=callback)
    cluster.open()
    return cluster


def publish(cluster: Components, *events: GroupEvent) -> None:
    async def run() -> None:
        for one in events:
            cluster.events.publish((one,))
        await asyncio.sleep(0)

    asyncio.run(run())


def test_events_become_one_batch_of_json_records() -> None:
    cluster = make()
    publish(cluster, event(), event("emptied"))
    log = cluster.partitions.by_name("__ottla_group_events", 0).log
    records = list(log.read_records(0))
    assert [record.key for record in records] == [b"g", b"g"]
    assert [json.loads(record.value)["kind"] for record in records] == ["trigger", "emptied"]
    assert json.loads(records[0].value) == event().to_dict() | {"members": []}


def test_a_callback_that_fails_is_logged_and_gets_the_next_event(caplog) -> None:
    kinds: list[str] = []

    def callback(one: GroupEvent) -> None:
        kinds.append(one.kind)
        if one.kind == "trigger":
            raise ValueError("the user's own bug")

    cluster = make(callback)
    publish(cluster, event(), event("emptied"))
    assert kinds == ["trigger", "emptied"]
    assert "the user's own bug" in caplog.text


def test_every_listener_gets_every_event() -> None:
    first: list[GroupEvent] = []
    second: list[GroupEvent] = []
    cluster = make(first.append)
    cluster.events.add_listener(second.append)
    publish(cluster, event(), event("emptied"))
    assert first == second == [event(), event("emptied")]


def test_events_that_a_full_disk_refuses_are_logged_as_lost_and_reach_listeners(caplog, hooked_files) -> None:
    received: list[GroupEvent] = []
    cluster = make(received.append, hooked_files)

    def before_append(path: str) -> None:
        if path.startswith("__ottla_group_events"):
            raise StorageError("the disk is full")

    hooked_files.before_append = before_append
    publish(cluster, event())
    assert "1 group events are lost: the disk is full" in caplog.text
    assert received == [event()]


def test_events_follow_a_real_group_through_its_life(api) -> None:
    fields = {
        "group_id": "g", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": None,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    joined = api.ask(ApiKey.JOIN_GROUP, 3, **fields)
    api.ask(ApiKey.LEAVE_GROUP, 0, group_id="g", member_id=joined.member_id)
    log = api.cluster.partitions.by_name("__ottla_group_events", 0).log
    events = [json.loads(record.value) for record in log.read_records(0)]
    assert [(one["kind"], one["trigger"]) for one in events] == [
        ("trigger", "JOIN_NEW"), ("join_completed", None), ("trigger", "LEAVE"), ("emptied", None)
    ]  # fmt: skip


def test_the_last_events_of_a_broker_that_has_not_opened_their_topic_are_kept(tmp_path, caplog) -> None:
    async def run() -> int:
        for _ in range(2):
            task = BrokerTask(tmp_path, {}, "127.0.0.1:0")
            await task.start()
            loops = task.cluster.coordinators.by_broker[1]
            resign_all = loops.resign_all
            loops.resign_all = lambda cluster=task.cluster, resign_all=resign_all: (resign_all(), cluster.events.publish((event(),)))
            await task.stop()
        task = BrokerTask(tmp_path, {}, "127.0.0.1:0")
        await task.start()
        partition = await task.cluster.partitions.open(task.cluster.topics.get("__ottla_group_events"), 0)
        end_offset = partition.log.log_end_offset
        await task.stop()
        return end_offset

    assert asyncio.run(run()) == 2
    assert caplog.messages == []


# Small logs are read by the reference backend, large ones by the columnar one, where its code is there.


def never(_command: Any) -> Any:
    raise AssertionError("nothing is to be compiled")


def test_a_small_log_needs_nothing_heavy() -> None:
    assert LoadingBackends(never).choose(COMPILED_BYTES_MIN - 1) is ReferenceReducer


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_large_log_is_read_by_compiled_code_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, is_cached: bool) -> None:
    from ottla.groups.log.arrow.loading import CompiledReducer

    class Process:
        def poll(self) -> None:
            return None

        def kill(self) -> None:
            pass

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(primitives, "is_cached", lambda _module: is_cached)
    backends = LoadingBackends(lambda _command: Process())  # type: ignore[arg-type,return-value]
    assert backends.choose(COMPILED_BYTES_MIN) is (CompiledReducer if is_cached else ReferenceReducer)
    backends.close()
