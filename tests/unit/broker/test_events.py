"""Group events on their way out: the topic, the callback, and neither ever in a group's way."""

import asyncio
import json

from ottla.broker.cluster_state import ClusterState
from ottla.broker.task import BrokerTask
from ottla.core.config import BrokerConfig
from ottla.core.errors import StorageError
from ottla.core.model import GroupEvent
from ottla.storage.memory_files import MemoryFiles


def event(kind: str = "trigger") -> GroupEvent:
    return GroupEvent(at_ms=1, group="g", kind=kind, generation=0, state_from="Empty", state_to="PreparingRebalance", trigger="JOIN_NEW")


def make(callback=None) -> ClusterState:
    cluster = ClusterState(MemoryFiles(), BrokerConfig({}), clock=lambda: 5, on_group_event=callback)
    cluster.open()
    return cluster


def test_events_become_one_batch_of_json_records() -> None:
    cluster = make()
    cluster.events._pending = [event(), event("emptied")]
    cluster.events.flush()
    log = cluster.partitions.by_name("__ottla_group_events", 0).log
    records = list(log.scan(0))
    assert [record.key for record in records] == [b"g", b"g"]
    assert [json.loads(record.value)["kind"] for record in records] == ["trigger", "emptied"]
    assert json.loads(records[0].value) == event().to_dict() | {"members": []}


def test_a_callback_that_fails_harms_nobody(caplog) -> None:
    told: list[str] = []

    def callback(one: GroupEvent) -> None:
        told.append(one.kind)
        if one.kind == "trigger":
            raise ValueError("the user's own bug")

    cluster = make(callback)
    cluster.events._pending = [event(), event("emptied")]
    cluster.events.flush()
    assert told == ["trigger", "emptied"]
    assert "the user's own bug" in caplog.text


def test_everybody_who_listens_is_told() -> None:
    first: list[GroupEvent] = []
    second: list[GroupEvent] = []
    cluster = make(first.append)
    cluster.events.listen(second.append)
    cluster.events._pending = [event(), event("emptied")]
    cluster.events.flush()
    assert first == second == [event(), event("emptied")]


def test_a_full_disk_costs_events_and_says_so(caplog, monkeypatch) -> None:
    told: list[GroupEvent] = []
    cluster = make(told.append)

    def full(_events) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(cluster.events, "_append", full)
    cluster.events._pending = [event()]
    cluster.events.flush()
    assert "1 group events are lost: the disk is full" in caplog.text
    assert told == [event()]


def test_events_follow_a_real_group_through_its_life(api) -> None:
    fields = {
        "group_id": "g", "session_timeout": 10000, "rebalance_timeout": 10000, "member_id": "", "group_instance_id": None,
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}],
    }  # fmt: skip
    joined = api.ask(11, 3, **fields)
    api.ask(13, 0, group_id="g", member_id=joined.member_id)
    log = api.cluster.partitions.by_name("__ottla_group_events", 0).log
    events = [json.loads(record.value) for record in log.scan(0)]
    assert [(one["kind"], one["trigger"]) for one in events] == [
        ("trigger", "JOIN_NEW"), ("join_completed", None), ("trigger", "LEAVE"), ("emptied", None)
    ]  # fmt: skip


def test_the_last_events_of_a_broker_that_has_not_opened_their_topic_are_kept(tmp_path, caplog) -> None:
    async def run() -> int:
        for _ in range(2):
            task = BrokerTask(tmp_path, {}, "127.0.0.1:0")
            await task.start()
            drop = task.cluster.nodes[1].groups.drop
            task.cluster.nodes[1].groups.drop = lambda cluster=task.cluster, drop=drop: (drop(), cluster.events.publish((event(),)))
            await task.stop()
        task = BrokerTask(tmp_path, {}, "127.0.0.1:0")
        await task.start()
        partition = await task.cluster.partitions.open(task.cluster.topics.get("__ottla_group_events"), 0)
        end_offset = partition.log.log_end_offset
        await task.stop()
        return end_offset

    assert asyncio.run(run()) == 2
    assert caplog.messages == []
