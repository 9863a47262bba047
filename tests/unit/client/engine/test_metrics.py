"""The consumer's metrics, from the engine in virtual time (Kafka: ConsumerCoordinatorTest, FetcherTest, KafkaConsumerMetricsTest)."""

from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

from ottla.client.engine.values import OffsetCommit
from ottla.client.membership.evidence import Lateness
from ottla.client.membership.values import Heartbeat, JoinGroup, JoinResponse
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def metrics(world: Any) -> dict[str, float]:
    found: dict[str, float] = world.engine.metrics.values(world.now)
    return found


def take(world: Any, count: int) -> None:
    assert len(world.offsets(world.poll(count))) == count
    world.engine.evidence.polls.ended(world.now)


def test_before_anything_happens(new_world: Callable[..., Any]) -> None:
    found = metrics(new_world())
    never = {"last-poll-seconds-ago", "last-heartbeat-seconds-ago", "last-rebalance-seconds-ago"}
    assert {name for name, value in found.items() if value == -1} == never
    assert all(value == 0 for name, value in found.items() if name.endswith("-total"))
    assert all(isnan(value) for name, value in found.items() if name.endswith(("-avg", "-max")))
    assert all(isinstance(value, float | int) for value in found.values())


def test_every_metric_is_documented(new_world: Callable[..., Any]) -> None:
    page = (Path(__file__).parents[4] / "docs" / "consumer.md").read_text()
    assert [name for name in metrics(new_world()) if f"`{name}`" not in page] == []


def test_a_rebalance_and_its_requests(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2})
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.errors[JoinGroup] = [
        JoinResponse(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"),
        JoinResponse(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ]
    world.poll()
    world.now += 1_000
    world.poll()
    found = metrics(world)
    assert (found["join-total"], found["sync-total"], found["rebalance-total"]) == (3, 1, 1)
    assert found["failed-rebalance-total"] == 1, "the coordinator that asks to join by the given id refuses nothing"
    assert found["rebalance-rate-per-hour"] == found["failed-rebalance-rate-per-hour"] == 3_600 / 31, "half a minute, and the second of now"
    assert found["rebalance-latency-max"] == found["rebalance-latency-total"] == 1_000
    assert found["assigned-partitions"] == 2
    world.now += 2_500
    assert metrics(world)["last-rebalance-seconds-ago"] == 2.5


def test_heartbeats_and_their_delays(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.engine.subscribe(["t"], [])
    world.poll()
    world.settle(3_200)
    world.silent.add(Heartbeat)
    world.settle(3_000)
    world.now += 40
    (heartbeat,) = [each for each in world.waiting if isinstance(each.request, Heartbeat)]
    world.engine.on_response(heartbeat, ErrorCode.NONE, world.now)
    found = metrics(world)
    assert (found["heartbeat-total"], found["heartbeat-delay-max"], found["heartbeat-delay-avg"]) == (2, 200, 100)
    assert found["heartbeat-response-time-max"] == 40
    assert found["last-heartbeat-seconds-ago"] == 0.04


def test_polls_and_what_they_hand_out(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2})
    world.add_records(T0, 30)
    world.add_records(T1, 100)
    world.engine.subscribe(["t"], [])
    take(world, 30)
    assert metrics(world)["bytes-consumed-total"] > 0
    fetched = metrics(world)["bytes-consumed-total"]
    world.now += 600
    take(world, 40)
    found = metrics(world)
    assert found["records-consumed-total"] == 70
    assert found["bytes-consumed-total"] == fetched, "the other partition's fetch is not used up"
    assert found["processing-time-per-record-avg"] == 20
    assert (found["time-between-poll-max"], found["last-poll-seconds-ago"]) == (600, 0)
    assert found["poll-idle-ratio-avg"] == 0
    assert found["records-lag-max"] == 60
    assert found["fetch-total"] == 1
    assert found["fetch-size-max"] >= found["fetch-size-avg"] > 0


def test_commits_and_requests_without_a_response(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 5)
    world.engine.subscribe(["t"], [])
    world.poll()
    world.errors[OffsetCommit] = ["lost"]
    world.engine.commits.commit_stored(world.now + 10_000)
    world.settle(20)
    assert metrics(world)["commit-total"] == 0
    world.settle(1_000)
    assert metrics(world)["commit-total"] == 1
    assert world.engine.metrics._sent_ms.keys() == {each.request for each in world.waiting}, "nothing is kept of requests that are over"


def test_stalls_by_their_causes(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.engine.evidence.stalled(Lateness(late_ms=100, gc_ms=80, own_cpu_ms=0, process_cpu_ms=90, switches=20), 100)
    world.engine.evidence.stalled(Lateness(late_ms=300, gc_ms=0, own_cpu_ms=0, process_cpu_ms=0, switches=1), 500)
    found = metrics(world)
    assert (found["stall-time-max"], found["stall-time-total"], found["stall-total"]) == (300, 400, 2)
    assert (found["stall-gc-time-total"], found["stall-stopped-time-total"], found["stall-gil-time-total"]) == (100, 300, 0)
