"""Why a member lost its membership, or nearly did: decisions over what its own process measured, each with numbers and advice.

Two kinds are told apart. Heartbeats were missing: the process did not run, or the network did not carry them. Or the application polled
too late: it works on its records for too long, or is stuck. Pure functions; `evidence` has the measurements.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor, log10
from typing import Final, NamedTuple

from ottla.core.client.group.values import GroupSettings
from ottla.core.reason_evidence import MemberCause

SESSION_MS_MAX: Final = 1_800_000
"""Brokers' default of group.max.session.timeout.ms."""
_STUCK: Final = 10
"""Records that take so many times as long as others before them are no slow ones: the application is stuck."""
_PART: Final = 0.9
"""The part of a session without a heartbeat that is enough to lose it: the coordinator's clock began with the last one that it got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What is known when a member is lost; milliseconds. `record_ms`: what earlier records took, None where there are none.

    `since_heartbeat_ms`: since the last heartbeat that was answered as it should. `since_response_ms`: the longest time without a response
    of any broker since then. `rejoin_due_ms`: how long a rebalance waits for the application, None where none does. `stalls`: since the
    last poll, or since that heartbeat.
    """

    settings: GroupSettings
    since_poll_ms: float = 0.0
    batch_records: int = 0
    record_ms: float | None = None
    since_heartbeat_ms: float = 0.0
    since_response_ms: float = 0.0
    rejoin_due_ms: float | None = None
    failure: str = ""
    stalls: Mapping[MemberCause, float] = field(default_factory=dict)


class Explanation(NamedTuple):
    """`event`: what happened; `why`: the numbers; `advice`: what to change, "" for nothing; `short`: the numbers for a reason."""

    cause: MemberCause
    event: str
    why: str
    advice: str
    short: str

    @property
    def sentence(self) -> str:
        """All of it, for a log."""
        return "; ".join(part for part in (self.event, f"{self.cause}: {self.why}", self.advice) if part)

    @property
    def evidence(self) -> str:
        """For the reason of a request; "" where nothing was measured."""
        return "" if self.cause is MemberCause.UNKNOWN else f"{self.cause}: {self.short}"


def explain_late_poll(measured: Measurements) -> Explanation:
    """The member leaves, since the application has not polled for max.poll.interval.ms."""
    gap, interval = round(measured.since_poll_ms), measured.settings.max_poll_interval_ms
    event = f"consumer poll timeout has expired. It leaves the group: no poll for {gap} ms, max.poll.interval.ms is {interval}"
    return _late_application(measured, event, f"no poll for {gap} ms")


def explain_next_poll(measured: Measurements) -> Explanation:
    """The application polls after the member has left: all its records are processed, so their time is known."""
    gap, interval = round(measured.since_poll_ms), measured.settings.max_poll_interval_ms
    event = f"joins again: the next poll came after {gap} ms, max.poll.interval.ms is {interval}"
    return _late_application(measured, event, f"no poll for {gap} ms", is_over=True)


def explain_silence(measured: Measurements) -> Explanation:
    """No heartbeat was answered for session.timeout.ms: the coordinator is looked for again, and may have removed the member."""
    session = measured.settings.session_timeout_ms
    event = (
        f"looks for the coordinator: no heartbeat was answered for {round(measured.since_heartbeat_ms)} ms, session.timeout.ms is {session}"
    )
    return _stalled(measured, event) or _network(measured, event)


def explain_removal(measured: Measurements, error: str, api: str) -> Explanation:
    """The coordinator does not know the member any more, or not in this generation."""
    event = f"is no member any more: the coordinator answered {api} with {error}"
    since_ms = measured.since_heartbeat_ms
    if since_ms >= _PART * measured.settings.session_timeout_ms:
        return _stalled(measured, event) or _network(measured, event)
    if measured.rejoin_due_ms is not None:
        waits = f"a rebalance waited {round(measured.rejoin_due_ms)} ms for the next poll"
        return _late_application(measured, f"{event}; {waits}", waits)
    return Explanation(
        MemberCause.UNKNOWN,
        event,
        f"heartbeats were answered until {round(since_ms)} ms ago; an administrator may have removed the member",
        "the coordinator's log has its reason",
        "",
    )


def explain_stall(settings: GroupSettings, cause: MemberCause, late_ms: float) -> Explanation:
    """The consumer ran late: no heartbeat was sent meanwhile."""
    event = f"sent no heartbeat for {round(late_ms)} ms, session.timeout.ms is {settings.session_timeout_ms}"
    return Explanation(cause, event, _STALLS[cause], _session_advice(late_ms, cause), f"{round(late_ms)} ms")


_STALLS: Final[Mapping[MemberCause, str]] = {
    MemberCause.GARBAGE_COLLECTION: "all threads waited for it",
    MemberCause.GIL_HELD: "another thread did not release the GIL",
    MemberCause.STOPPED: "the process did not run: it was stopped or had no CPU",
    MemberCause.THREAD_LATE: "the thread of the consumer computed, or waited for a lock or a CPU",
    MemberCause.LOOP_BLOCKED: "other code of the event loop did not let it run",
}
_REMEDIES: Final[Mapping[MemberCause, str]] = {
    MemberCause.GARBAGE_COLLECTION: "keep fewer objects, call gc.freeze() after loading them",
    MemberCause.GIL_HELD: "run that call in a process of its own",
    MemberCause.STOPPED: "check the limits of its CPU",
    MemberCause.THREAD_LATE: "check assignors and callbacks of your own, and the load of the machine",
    MemberCause.LOOP_BLOCKED: "run code that blocks in a thread (asyncio.to_thread)",
    MemberCause.NETWORK: "check the network to the coordinator",
}


def _stalled(measured: Measurements, event: str) -> Explanation | None:
    """Stalls explain a silence when they fill half of it, or of the session; the longest kind names it."""
    total_ms = sum(measured.stalls.values())
    if total_ms < min(measured.since_heartbeat_ms, measured.settings.session_timeout_ms) / 2:
        return None
    cause = max(measured.stalls, key=lambda each: measured.stalls[each])
    late_ms, since_ms = round(measured.stalls[cause]), round(measured.since_heartbeat_ms)
    why = f"{_STALLS[cause]} for {late_ms} of {since_ms} ms without a heartbeat"
    return Explanation(
        cause, event, why, _session_advice(measured.since_heartbeat_ms, cause), f"{late_ms} of {since_ms} ms without a heartbeat"
    )


def _network(measured: Measurements, event: str) -> Explanation:
    since, silent = round(measured.since_heartbeat_ms), round(measured.since_response_ms)
    if silent >= measured.settings.heartbeat_interval_ms:
        why = f"the consumer ran in time, and no broker answered anything for {silent} ms"
    else:
        why = f"the consumer ran in time, and the coordinator answered no heartbeat for {since} ms; other requests were answered"
    failed = f" ({measured.failure})" if measured.failure else ""
    advice = _session_advice(measured.since_heartbeat_ms, MemberCause.NETWORK)
    return Explanation(MemberCause.NETWORK, event, why + failed, advice, f"no heartbeat answered for {since} ms")


def _late_application(measured: Measurements, event: str, short: str, *, is_over: bool = False) -> Explanation:
    """The application did not poll: it did not run, is stuck, or has too much to do. `is_over`: it has processed its records by now."""
    gap_ms, records, usual_ms = measured.since_poll_ms, measured.batch_records, measured.record_ms
    if sum(measured.stalls.values()) >= gap_ms / 2:
        cause = max(measured.stalls, key=lambda each: measured.stalls[each])
        late = f"{round(measured.stalls[cause])} of {round(gap_ms)} ms"
        advice = f"{_REMEDIES[cause]}, or {_interval_advice(gap_ms)}"
        return Explanation(cause, event, f"{_STALLS[cause]} for {late}", advice, f"{short}, {late} of it stalled")
    if not records:
        why = "the last poll gave it no record, and it did something else since then"
        return Explanation(MemberCause.BLOCKED, event, why, f"poll more often, or {_interval_advice(gap_ms)}", short)
    if usual_ms is not None and gap_ms >= _STUCK * records * max(usual_ms, 0.1):
        usual = f"earlier ones took {_number(usual_ms)} ms each"
        why = f"{_count(records)} took {round(gap_ms)} ms{'' if is_over else ' so far'}, {usual}"
        advice = f"bound the time of a record, or pause() and poll() while it takes longer, or {_interval_advice(gap_ms)}"
        return Explanation(MemberCause.BLOCKED, event, why, advice, f"{short}, {_count(records)}, {usual}")
    each_ms = gap_ms / records if is_over else max(gap_ms / records, usual_ms or 0.0)
    duration = f"{_number(each_ms)} ms{' each' if records > 1 else ''}"
    verb = "took" if is_over else "need at least" if records > 1 else "needs at least"
    why = f"{_count(records)} {verb} {duration}"
    advice = _interval_advice(each_ms * records)
    fewer = _rounded_down(measured.settings.max_poll_interval_ms / 2 / each_ms)
    if 0 < fewer < records:
        advice = f"set max.poll.records to {fewer}, or {advice}"
    return Explanation(MemberCause.SLOW_PROCESSING, event, why, advice, f"{short}, {_count(records)} at {duration}")


def _interval_advice(gap_ms: float) -> str:
    return f"set max.poll.interval.ms to {_rounded_up(1.5 * gap_ms)}"


def _session_advice(since_ms: float, cause: MemberCause) -> str:
    return f"{_REMEDIES[cause]}, or set session.timeout.ms to {min(_rounded_up(1.5 * since_ms), SESSION_MS_MAX)}"


def _count(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"


def _number(milliseconds: float) -> str:
    return f"{milliseconds:.1f}" if milliseconds < 100 else str(round(milliseconds))


def _rounded_down(value: float) -> int:
    """The largest number with one digit before zeros that is not above the value; 0 below 1."""
    if value < 1:
        return 0
    unit = 10 ** floor(log10(value))
    return int(value // unit * unit)


def _rounded_up(value: float) -> int:
    """The smallest number with one digit before zeros that is not below the value, at least 1."""
    if value <= 1:
        return 1
    unit = 10 ** floor(log10(value))
    return int(-(-value // unit) * unit)
