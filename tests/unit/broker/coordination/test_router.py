"""Commands on their way to the coordinators of their groups: found by the group's id, or refused."""

from typing import Any

import pytest

from ottla.broker.coordination.router import PendingReplies
from ottla.coordinator.effects import Reply
from ottla.groups.commands import DeleteResult, Heartbeat, HeartbeatResult, Result
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import CONSUMER_OFFSETS
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
