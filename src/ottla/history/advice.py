"""Finds settings that will make members leave, before they do: with the arithmetic, and the value to set.

The input is a consumer's settings and how long its work takes, not the events of a group.
"""

from dataclasses import dataclass
from typing import Final

HEARTBEATS_PER_SESSION: Final = 3
"""Heartbeats that should fit into a session: one may be late and one lost."""

SESSION_OF_GROUP: Final = "consumer.session.timeout.ms"
HEARTBEAT_OF_GROUP: Final = "consumer.heartbeat.interval.ms"
"""Settings of a group of the consumer protocol, for its members of that protocol; the broker's begin with "group."."""

SESSION_OF_GROUP_MAX_MS: Final = 60_000
"""Brokers' default of group.consumer.max.session.timeout.ms."""

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """A consumer's settings; the defaults are those of Kafka's Java client with the classic protocol."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    is_consumer_protocol: bool = False
    """Whether its group.protocol is consumer (KIP-848): session and heartbeat interval are then settings of the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A setting by its Kafka name, what it is, what to set it to, and a sentence that says why."""

    setting: str
    value: int
    suggested: int
    sentence: str


def advise(settings: ConsumerSettings, *, work_per_poll_ms: int | None = None) -> tuple[Advice, ...]:
    """Settings with which members will leave. `work_per_poll_ms`: the longest time between two polls, if known."""
    found = [_heartbeats(settings)]
    if work_per_poll_ms is not None:
        found.append(_poll_interval(settings, work_per_poll_ms))
    return tuple(each for each in found if each is not None)


def record_budget_ms(settings: ConsumerSettings) -> int:
    """How long one record of a full poll may take before the consumer leaves its group."""
    return settings.max_poll_interval_ms // settings.max_poll_records


def idle_or_uneven(partitions: int, members: int) -> str | None:
    """Why partitions are not divided evenly, as a sentence; None where each member gets the same number."""
    if partitions % members == 0:
        return None
    if partitions < members:
        return f"{members - partitions} of {members} members have nothing to read: there are {partitions} partitions."
    least = partitions // members
    return (
        f"{partitions} partitions over {members} members: {partitions % members} of them read {least + 1}, the others {least}. "
        f"With a whole multiple of {members}, {_next_multiple(partitions, members)} say, they would read the same."
    )


def _heartbeats(settings: ConsumerSettings) -> Advice | None:
    session, heartbeat = settings.session_timeout_ms, settings.heartbeat_interval_ms
    if session >= HEARTBEATS_PER_SESSION * heartbeat:
        return None
    suggested = session // HEARTBEATS_PER_SESSION
    needed = HEARTBEATS_PER_SESSION * heartbeat
    is_allowed = not settings.is_consumer_protocol or needed <= SESSION_OF_GROUP_MAX_MS
    names = (HEARTBEAT_OF_GROUP, SESSION_OF_GROUP) if settings.is_consumer_protocol else ("heartbeat.interval.ms", "session.timeout.ms")
    return Advice(
        setting=names[0],
        value=heartbeat,
        suggested=suggested,
        sentence=(
            f"A session of {session} ms is shorter than {HEARTBEATS_PER_SESSION} heartbeats of {heartbeat} ms "
            f"({needed} ms), so a late heartbeat loses the member: "
            f"set {names[0]} to {suggested}{f', or {names[1]} to {needed}' if is_allowed else ''}."
        ),
    )


def _poll_interval(settings: ConsumerSettings, work_per_poll_ms: int) -> Advice | None:
    interval = settings.max_poll_interval_ms
    if work_per_poll_ms < interval:
        return None
    suggested = (work_per_poll_ms // _MINUTE_MS + 1) * _MINUTE_MS
    records = (settings.max_poll_records * interval - 1) // work_per_poll_ms
    otherwise = f", or max.poll.records to {records}" if records else ""
    return Advice(
        setting="max.poll.interval.ms",
        value=interval,
        suggested=suggested,
        sentence=(
            f"The work on one poll takes {_text(work_per_poll_ms)} and max.poll.interval.ms is {_text(interval)}: the member will leave "
            f"the group after each such poll. Set max.poll.interval.ms to {suggested} ({_text(suggested)}){otherwise} "
            f"({_text(interval)} / {settings.max_poll_records} records = {record_budget_ms(settings)} ms a record)."
        ),
    )


def _text(duration_ms: int) -> str:
    return f"{duration_ms / _MINUTE_MS:g} min" if duration_ms >= _MINUTE_MS else f"{duration_ms} ms"


def _next_multiple(partitions: int, members: int) -> int:
    return -(-partitions // members) * members
