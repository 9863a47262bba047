"""The oracle finds what it is there to find."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.broker import Broker, Cluster
from ottla.client.admin.values import Failure
from ottla.groups.events import EventMember, GroupEvent
from ottla.protocol.errors import ErrorCode
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until
from trials.chaos import chaos as chaos_module
from trials.chaos.chaos import ASSIGNORS, PARTITIONS, SETTINGS, TOPIC, ClusterChaos, KafkaChaos
from trials.chaos.members import JournalRead, read_journal
from trials.chaos.worker import Positions
from trials.harness.ledger import Ledger
from trials.harness.oracle import lost, owned_twice, without_cause


def event(kind: str, generation: int, members: dict[str, list[int]] | None = None, trigger: str | None = None) -> GroupEvent:
    plans = tuple(
        EventMember(
            member_id=name, instance_id=None, client_id="c", client_host="/h", session_timeout_ms=1, rebalance_timeout_ms=1,
            assignment={"t": numbers},
        )
        for name, numbers in (members or {}).items()
    )  # fmt: skip
    return GroupEvent(
        at_ms=generation, group="g", kind=kind, generation=generation, state_from="", state_to="", members=plans, trigger=trigger
    )


def test_journals_are_read_without_a_torn_end(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text("0 5 seven\n! KafkaError('x')\n1 2 eight\n1 3 ni")
    assert read_journal(journal) == JournalRead([(0, 5, "seven"), (1, 2, "eight")], ["KafkaError('x')"])
    assert read_journal(tmp_path / "never") == JournalRead([], [])


def test_a_record_that_no_consumer_processed_is_lost_and_so_is_one_processed_as_another() -> None:
    processed = {(0, 0, "a"), (0, 1, "b")}
    assert lost({(0, 0): "a", (0, 1): "b"}, processed) == []
    assert lost({(0, 0): "a", (0, 1): "x", (1, 0): "c"}, processed) == [(0, 1), (1, 0)]


def test_two_owners_in_one_generation_are_found_also_when_two_coordinators_told() -> None:
    fine = [event("sync_completed", 1, {"a": [0, 1], "b": [2]}), event("sync_completed", 2, {"a": [2], "b": [0, 1]})]
    assert owned_twice(fine) == []
    assert owned_twice([event("sync_completed", 1, {"a": [0, 1], "b": [1]})]) == ["t-1 in generation 1 of g: a, b"]
    assert owned_twice([fine[0], event("sync_completed", 1, {"b": [0]})]) == ["t-0 in generation 1 of g: a, b"]


def test_a_rebalance_without_a_trigger_has_no_cause() -> None:
    caused = [event("trigger", 0, trigger="JOIN_NEW"), event("join_completed", 1), event("sync_completed", 1)]
    assert without_cause(caused) == []
    assert without_cause([*caused, event("join_completed", 2), event("sync_completed", 2)]) == ["generation 2 of g (completed)"]


# --- tests of the chaos on Apache Kafka: what it does to members and broker, and what it finds wrong. `make soak` runs it


class ToldBroker:
    """Counts what is done to it."""

    bootstrap_servers, pid = "h:1", 4711

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def kill(self) -> None:
        self.calls.append("kill")


class ToldMembers:
    """Processes that do nothing."""

    def __init__(self, **_: Any) -> None:
        self.running: list[int] = []
        self.started: list[int] = []
        self.calls: set[str] = set()
        self.reads = [JournalRead([(0, 0, "a")], [])]

    def start(self) -> None:
        self.running.append(len(self.started))
        self.started.append(len(self.started))

    def leave(self) -> None:
        self.running.pop()

    def die(self) -> None:
        self.running.pop()

    def cut(self) -> None:
        self.calls.add("cut")

    def freeze(self, now_s: float) -> None:
        self.calls.add("freeze")

    def thaw(self, now_s: float) -> None:
        self.calls.add("thaw")

    def close(self) -> None:
        self.running.clear()

    def journals(self) -> list[JournalRead]:
        return self.reads

    def processed(self) -> set[tuple[int, int, str]]:
        return {row for read in self.reads for row in read.processed}


class ToldLedger:
    def __init__(self, *_: Any, per_second: int) -> None:
        self.acknowledged = {(0, 0): "a"}
        self.behind_of_group: dict[int, tuple[int, int]] = {}

    @contextmanager
    def growing(self) -> Iterator[None]:
        yield

    def behind(self, _: str) -> dict[int, tuple[int, int]]:
        return self.behind_of_group


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def signals(monkeypatch: Any) -> list[int]:
    """What was sent to the broker's process."""
    sent: list[int] = []
    monkeypatch.setattr(chaos_module.os, "kill", lambda pid, number: sent.append(number))
    monkeypatch.setattr(chaos_module, "Members", ToldMembers)
    monkeypatch.setattr(chaos_module, "Ledger", ToldLedger)
    clock = Time()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(time, "sleep", clock.sleep)
    return sent


def test_everything_happens_to_members_and_broker(signals: list[int], tmp_path: Path) -> None:
    broker = ToldBroker()
    chaos = KafkaChaos(broker, 1, tmp_path)  # type: ignore[arg-type]
    chaos.run(900)
    assert set(chaos.actions.counts) == {"join", "leave", "die", "freeze", "cut", "stop_broker", "kill_broker", "freeze_broker"}
    assert set(broker.calls[::2]) == {"stop", "kill"}
    assert set(broker.calls[1::2]) == {"start"}
    assert signals[::2] == [signal.SIGSTOP] * (len(signals) // 2)
    assert signals[1::2] == [signal.SIGCONT] * (len(signals) // 2)


@pytest.mark.usefixtures("signals")
def test_seeds_try_every_assignor(tmp_path: Path) -> None:
    assert {KafkaChaos(ToldBroker(), seed, tmp_path).assignor for seed in range(30)} == set(ASSIGNORS)  # type: ignore[arg-type]


@pytest.mark.usefixtures("signals")
def test_what_does_not_hold_is_said(monkeypatch: Any, tmp_path: Path) -> None:
    chaos = KafkaChaos(ToldBroker(), 1, tmp_path)  # type: ignore[arg-type]
    monkeypatch.setattr(chaos, "_group_problem", list)
    assert chaos.wrong() == []
    assert len(chaos.members.started) == 4
    chaos.ledger.acknowledged[1, 7] = "b"
    chaos.ledger.behind_of_group = {1: (7, 8)}  # type: ignore[attr-defined]
    chaos.members.reads.append(JournalRead([], [], ("0 at 5 instead of 4",)))  # type: ignore[attr-defined]
    monkeypatch.setattr(chaos, "_group_problem", lambda: ["the group is Empty"])
    assert chaos.wrong() == [
        "partition 1 is committed to 7 of 8",
        "the group is Empty",
        "record (1, 7) was not processed",
        "a record came for partition 0 at 5 instead of 4",
    ]


@pytest.mark.usefixtures("signals")
def test_a_group_that_cannot_be_described(monkeypatch: Any, tmp_path: Path) -> None:
    class Admin:
        def __init__(self, _: Any) -> None: ...
        def __enter__(self) -> "Admin":
            return self

        def __exit__(self, *_: object) -> None: ...
        def describe_groups(self, groups: list[str]) -> dict[str, Any]:
            return {groups[0]: Failure(ErrorCode.GROUP_ID_NOT_FOUND)}

    monkeypatch.setattr(chaos_module, "AdminClient", Admin)
    assert "the group cannot be described" in KafkaChaos(ToldBroker(), 1, tmp_path)._group_problem()[0]  # type: ignore[arg-type]


# --- a few seconds of chaos: what the driver does is counted, and it leaves nothing behind


def test_it_starts_consumers_and_moves_coordinators(tmp_path: Path) -> None:
    with Cluster(brokers=2, config={**SETTINGS, "default.replication.factor": "2"}) as cluster:
        create_topic(cluster.address(1), TOPIC, PARTITIONS, replicas=2)
        chaos = ClusterChaos(cluster, 3, tmp_path)
        try:
            chaos.run(2)
            running = [consumer.program for consumer in chaos.members.running]
        finally:
            chaos.members.close()
    assert chaos.actions.counts["move_coordinator"] >= 1
    assert running
    assert not any(program.is_running for program in running)
    assert chaos.ledger.acknowledged


# --- records that come to a worker at a wrong place are found


class Committed:
    """Committed offsets, which are lost while `is_down`."""

    def __init__(self) -> None:
        self.offsets = {0: 10, 1: 0}
        self.is_down = False

    def __call__(self, partitions: Sequence[int]) -> dict[int, int]:
        if self.is_down:
            raise ConnectionError
        return {each: self.offsets[each] for each in partitions}


def misplaced(committed: Committed, *records: tuple[int, int]) -> list[str]:
    found: list[str] = []
    positions = Positions(committed, found.append)
    positions.assigned([0, 1])
    for record in records:
        positions.check(*record)
    return found


def test_records_begin_at_the_committed_offset_and_follow_one_another() -> None:
    assert misplaced(Committed(), (0, 10), (1, 0), (0, 11), (1, 1), (0, 12)) == []
    assert misplaced(Committed(), (0, 9)) == ["0 at 9 instead of 10"]
    assert misplaced(Committed(), (0, 11)) == ["0 at 11 instead of 10"]
    assert misplaced(Committed(), (0, 10), (0, 12)) == ["0 at 12 instead of 11"]
    assert misplaced(Committed(), (0, 10), (0, 10)) == ["0 at 10 instead of 11"]


def test_what_others_committed_meanwhile_is_no_gap() -> None:
    committed, found = Committed(), list[str]()
    positions = Positions(committed, found.append)
    positions.assigned([0])
    committed.offsets[0] = 20
    positions.check(0, 15)
    positions.check(0, 21)
    assert found == ["0 at 21 instead of 16"]


def test_without_an_answer_the_first_record_says_where_a_partition_begins() -> None:
    committed = Committed()
    committed.is_down = True
    assert misplaced(committed, (0, 7), (0, 8)) == []


# --- tests of the ledger: what was written and acknowledged, and what the group has not committed


def test_what_was_written_is_known_and_what_is_not_committed_is_behind() -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "t", 2)
        ledger = Ledger(broker.bootstrap_servers, "t", 2)
        with ledger.growing():
            wait_until(lambda: {partition for partition, _ in ledger.acknowledged} == {0, 1}, "records in both partitions")
        ends = {number: 1 + max(offset for partition, offset in ledger.acknowledged if partition == number) for number in (0, 1)}
        assert set(ledger.acknowledged) == {(number, offset) for number, end in ends.items() for offset in range(end)}
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "log_level": 0})
        consumer.commit(offsets=[TopicPartition("t", 0, ends[0])], asynchronous=False)
        consumer.close()
        assert ledger.behind("g") == {1: (-1001, ends[1])}
