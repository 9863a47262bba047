"""One consumer's loop: what it counts, what it makes of refused commits, how it is slow, how it ends."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ottla.cli.demo.consumer import Worker, main


class Message:
    def __init__(self, carrier: str, error: KafkaError | None = None) -> None:
        self._carrier, self._error = carrier, error

    def value(self) -> bytes:
        return json.dumps({"carrier": self._carrier}).encode()

    def error(self) -> KafkaError | None:
        return self._error


class FakeConsumer:
    """Gives each batch once, then asks its worker to stop; commits end as `commits` says."""

    def __init__(self, batches: list[list[Message]], commits: list[int | None] | None = None) -> None:
        self.worker: Worker | None = None
        self.is_closed = False
        self.topics: list[str] = []
        self._batches = list(batches)
        self._commits = list(commits or [])

    def subscribe(self, topics: list[str], **_callbacks: Any) -> None:
        self.topics = topics

    def consume(self, _count: int, _seconds: float) -> list[Message]:
        if self._batches:
            return self._batches.pop(0)
        assert self.worker is not None
        self.worker.stop()
        return []

    def commit(self, *, asynchronous: bool) -> None:
        assert not asynchronous
        code = self._commits.pop(0) if self._commits else None
        if code is not None:
            raise KafkaException(KafkaError(code))

    def close(self) -> None:
        self.is_closed = True


def worker_of(consumer: FakeConsumer, *, slow_batch_ms: int = 0) -> Worker:
    consumer.worker = Worker(consumer, slow_batch_ms=slow_batch_ms)
    return consumer.worker


def test_flights_are_counted_and_the_group_is_left() -> None:
    consumer = FakeConsumer([[Message("UA"), Message("AA")], [Message("UA")]])
    worker = worker_of(consumer)
    worker.run("flights")
    assert worker.summary() == {"flights": 3, "commits_refused": 0, "by_airline": {"UA": 2, "AA": 1}}
    assert consumer.topics == ["flights"]
    assert consumer.is_closed


def test_an_error_is_no_flight() -> None:
    worker = worker_of(FakeConsumer([[Message("", KafkaError(KafkaError._MAX_POLL_EXCEEDED))]]))
    worker.run("flights")
    assert worker.by_airline.total() == 0


def test_a_refused_commit_is_counted_and_the_work_goes_on() -> None:
    batches = [[Message("UA")], [Message("UA")], [Message("UA")]]
    worker = worker_of(FakeConsumer(batches, [KafkaError.ILLEGAL_GENERATION, KafkaError._NO_OFFSET]))
    worker.run("flights")
    assert worker.summary()["commits_refused"] == 1
    assert worker.by_airline.total() == 3


def test_slow_is_slow_once_and_may_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer([[Message("UA")], [Message("UA")]])
    worker = worker_of(consumer, slow_batch_ms=300)
    worker.be_slow_once()
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr("ottla.cli.demo.consumer.time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    worker.run("flights")
    assert 0.3 <= now_s < 0.6


def test_the_process_writes_its_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer([[Message("HA")]])
    monkeypatch.setattr("confluent_kafka.Consumer", lambda config, logger: consumer)

    def with_fake(_: object, *, slow_batch_ms: int) -> Worker:
        return worker_of(consumer, slow_batch_ms=slow_batch_ms)

    monkeypatch.setattr("ottla.cli.demo.consumer.Worker", with_fake)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    path = tmp_path / "summary.json"
    main(["--config", "{}", "--topic", "flights", "--slow-batch-ms", "1", "--summary", str(path)])
    assert json.loads(path.read_text())["by_airline"] == {"HA": 1}
