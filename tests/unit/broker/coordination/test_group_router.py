"""Commands on their way to the coordinators of their groups: found by the group's id, or refused."""

import pytest

from ottla.core.errors import ErrorCode, StorageError
from ottla.core.groups.commands import Heartbeat
from ottla.core.groups.effects import HeartbeatResult, Result
from ottla.core.metadata.topics import CONSUMER_OFFSETS
from ottla.core.wire.api_keys import ApiKey
from ottla.storage.log.partition_log import PartitionLog


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
