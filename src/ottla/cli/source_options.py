"""Options of every command that reads evidence: where it is, and of which times."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import wraps
from typing import Any, Final

import click

SOURCES: Final = (
    click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Read the cluster's own topics; Ottla or Apache Kafka."),
    click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`)."),
    click.option(
        "--broker-log", "broker_logs", multiple=True, metavar="FILE", help="A broker's log, also gzip or rotated; may be repeated."
    ),
    click.option(
        "--offsets-topic",
        "offsets_topics",
        multiple=True,
        metavar="DIR",
        help="A Kafka data directory, or one with __consumer_offsets-N folders; may be repeated.",
    ),
    click.option("--client-log", "client_logs", multiple=True, metavar="FILE", help="A consumer's log, of any client; may be repeated."),
    click.option("--archive", "archives", multiple=True, metavar="DIR", help="What `ottla watch` stored; may be repeated."),
)
TIMES: Final = (
    click.option("--since", metavar="TIME", help="Only from then on: 2026-11-22T14:31, 14:31, or how long ago (30m, 2h, 3d)."),
    click.option("--until", metavar="TIME", help="Only before then."),
    click.option("--utc", is_flag=True, help="Times are UTC; without it, of this machine's zone."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """What the options say: bounds in milliseconds since 1970, None where there is none, and the zone of log lines that name none."""

    since_ms: int | None
    until_ms: int | None
    zone: tzinfo


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the sources; `command` gets the arguments of a `SourceOptions`, but for `groups`."""
    for option in reversed(SOURCES):
        command = option(command)
    return command


def time_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the times; `command` gets a `TimeRange` as `times`."""

    @wraps(command)
    def with_times(*, since: str | None, until: str | None, utc: bool, **others: Any) -> None:
        command(times=_time_range(since, until, is_utc=utc), **others)

    decorated: Callable[..., None] = with_times
    for option in reversed(TIMES):
        decorated = option(decorated)
    return decorated


def _time_range(since: str | None, until: str | None, *, is_utc: bool) -> TimeRange:
    from ottla.history.times import machine_zone

    zone = UTC if is_utc else machine_zone()
    return TimeRange(since_ms=parse_bound("--since", since, zone=zone), until_ms=parse_bound("--until", until, zone=zone), zone=zone)


def parse_bound(option: str, text: str | None, *, zone: tzinfo) -> int | None:
    """Milliseconds since 1970 of what an option says; None where it is not given. Raises click.BadParameter with what to write instead."""
    from ottla.history.times import parse_time_ms

    try:
        return None if text is None else parse_time_ms(text, now_ms=time.time_ns() // 1_000_000, zone=zone)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error
