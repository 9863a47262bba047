"""The way from a group's name to its coordinator."""

import pytest

from ottla.broker.coordinator_loop import CoordinatorLoop
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, NewTopic
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.groups.effects import DeleteResult, Reply
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
    open_log = PartitionLog.open

    def fail(log, now_ms, **checkpoints):
        if log.directory == f"{CONSUMER_OFFSETS}-3":
            raise StorageError("cannot read it: the disk reports an error; check the device")
        return open_log(log, now_ms, **checkpoints)

    monkeypatch.setattr(PartitionLog, "open", fail)
    groups = make_api(files=first.files).node.groups
    assert len(groups.loops()) == 4
    assert f"{CONSUMER_OFFSETS}-3: its groups are not served: cannot read it" in caplog.text
    with pytest.raises(StorageError):
        groups.loop(3)
