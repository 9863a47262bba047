"""Why a membership was lost, or nearly: what a consumer measures in its own process, and the sentence and advice that follow from it.

Measured are the application's polls (a poll is one call that hands out records; the application's work is the time from its end to the
beginning of the next) and stalls: the thread, or the event loop, that sends heartbeats ran late. A thread that waits for the GIL wakes up
in each switch interval to ask for it (CPython: `take_gil`), and a stopped process does not run at all: the thread's voluntary context
switches tell the two apart.

Two kinds of loss are told apart. Heartbeats were missing: the process did not run, or the network did not carry them. Or the application
polled too late: it works on its records for too long, or is stuck. Joins, leaves and losses are logged in the words of Kafka's Java client,
so that tools which read its logs understand these. Times are milliseconds of a clock that never jumps.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor, log10, nan
from typing import Final, NamedTuple

from ottla.client.membership.values import GroupSettings
from ottla.client.sensors import Sensor
from ottla.groups.reason_evidence import MemberCause, with_evidence


class PollMeter:
    """The polls of one consumer. `began_ms`: when the last one began, None before it; `batch_records`: what the last one handed out."""

    def __init__(self, now_ms: float) -> None:
        self.began_ms: float | None = None
        self._ended_ms: float | None = None
        self.batch_records = self._taken = 0
        self.intervals = Sensor(now_ms)
        self._in_poll = Sensor(now_ms)
        self._working = Sensor(now_ms)
        self._processing = Sensor(now_ms)
        self._records = Sensor(now_ms)

    def began(self, now_ms: float) -> None:
        """The application calls poll: what it got before is processed. Until `ended`, further calls are the same poll."""
        if self.began_ms is not None and self._ended_ms is None:
            return
        if self.began_ms is not None:
            self.intervals.record(now_ms - self.began_ms, now_ms)
        if self._ended_ms is not None:
            work_ms = now_ms - self._ended_ms
            self._working.record(work_ms, now_ms)
            if self._taken:
                self._processing.record(work_ms, now_ms)
                self._records.record(self._taken, now_ms)
        self.began_ms, self._ended_ms, self._taken = now_ms, None, 0

    def took(self, records: int) -> None:
        """The poll hands out so many records; after its end: so many were taken one at a time, by short polls that are not reported."""
        self._taken += records
        if records and self._ended_ms is not None:
            self.batch_records = 1

    def ended(self, now_ms: float) -> None:
        """The poll returns."""
        if self.began_ms is not None:
            self._in_poll.record(now_ms - self.began_ms, now_ms)
        self._ended_ms, self.batch_records = now_ms, self._taken

    def record_ms(self, now_ms: float) -> float | None:
        """What the application needed for each record of late, the batch that it works on left out; None without one."""
        records = self._records.sum(now_ms)
        return self._processing.sum(now_ms) / records if records else None

    def idle_ratio(self, now_ms: float) -> float:
        """The part of its time that the application spent in poll of late, from 0 to 1; NaN before the second poll."""
        idle_ms, work_ms = self._in_poll.sum(now_ms), self._working.sum(now_ms)
        return idle_ms / (idle_ms + work_ms) if idle_ms + work_ms else nan


STALL_MS_MIN: Final = 50.0
"""A thread that is late by less is not worth a record: other threads compute, and the machine has other work."""
STALLS_MAX: Final = 200


class Lateness(NamedTuple):
    """How late the consumer ran, and what was measured meanwhile; milliseconds.

    `gc_ms`: garbage collections. `own_cpu_ms`: CPU time of the consumer's thread, `process_cpu_ms` of all. `switches`: voluntary context
    switches of the consumer's thread, None where the operating system does not count them; `switch_interval_ms`: sys.getswitchinterval.
    `is_loop`: the thread is that of an event loop, in which the application's code runs, too.
    """

    late_ms: float
    gc_ms: float
    own_cpu_ms: float
    process_cpu_ms: float
    switches: int | None
    switch_interval_ms: float = 5.0
    is_loop: bool = False


def stall_cause(late: Lateness) -> MemberCause:
    """What kept the consumer from running."""
    if late.gc_ms >= late.late_ms / 2:
        return MemberCause.GARBAGE_COLLECTION
    if late.is_loop:
        return MemberCause.LOOP_BLOCKED
    if late.own_cpu_ms >= late.late_ms / 2:
        return MemberCause.THREAD_LATE
    if late.switches is not None and late.switches * late.switch_interval_ms >= late.late_ms / 8:
        return MemberCause.GIL_HELD
    if late.process_cpu_ms < late.late_ms / 10:
        return MemberCause.STOPPED
    return MemberCause.GIL_HELD if late.switches is None else MemberCause.THREAD_LATE


class _Stall(NamedTuple):
    ended_ms: float
    late_ms: float
    cause: MemberCause


class StallHistory:
    """The latest stalls, and sums since the start: `total_ms` of each cause."""

    def __init__(self) -> None:
        self._stalls: deque[_Stall] = deque(maxlen=STALLS_MAX)
        self.total_ms: dict[MemberCause, float] = {}

    def add(self, late: Lateness, now_ms: float) -> MemberCause:
        """Record a stall that has just ended; its cause."""
        cause = stall_cause(late)
        self._stalls.append(_Stall(now_ms, late.late_ms, cause))
        self.total_ms[cause] = self.total_ms.get(cause, 0.0) + late.late_ms
        return cause

    def since(self, since_ms: float) -> dict[MemberCause, float]:
        """Milliseconds of stalls of each cause after a time."""
        found: dict[MemberCause, float] = {}
        for stall in self._stalls:
            inside_ms = min(stall.late_ms, stall.ended_ms - since_ms)
            if inside_ms > 0:
                found[stall.cause] = found.get(stall.cause, 0.0) + inside_ms
        return found


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
    event = f"sent no heartbeat for {round(late_ms)} ms, {settings.session_property} is {settings.session_timeout_ms}"
    return Explanation(cause, event, _STALLS[cause], _or_session(settings, late_ms, cause), f"{round(late_ms)} ms")


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
        cause,
        event,
        why,
        _or_session(measured.settings, measured.since_heartbeat_ms, cause),
        f"{late_ms} of {since_ms} ms without a heartbeat",
    )


def _network(measured: Measurements, event: str) -> Explanation:
    since, silent = round(measured.since_heartbeat_ms), round(measured.since_response_ms)
    if silent >= measured.settings.heartbeat_interval_ms:
        why = f"the consumer ran in time, and no broker answered anything for {silent} ms"
    else:
        why = f"the consumer ran in time, and the coordinator answered no heartbeat for {since} ms; other requests were answered"
    failed = f" ({measured.failure})" if measured.failure else ""
    advice = _or_session(measured.settings, measured.since_heartbeat_ms, MemberCause.NETWORK)
    return Explanation(MemberCause.NETWORK, event, why + failed, advice, f"no heartbeat answered for {since} ms")


def _late_application(measured: Measurements, event: str, short: str, *, is_over: bool = False) -> Explanation:
    """The application did not poll: it did not run, is stuck, or has too much to do. `is_over`: it has processed its records by now."""
    gap_ms, records, usual_ms = measured.since_poll_ms, measured.batch_records, measured.record_ms
    if sum(measured.stalls.values()) >= gap_ms / 2:
        cause = max(measured.stalls, key=lambda each: measured.stalls[each])
        late = f"{round(measured.stalls[cause])} of {round(gap_ms)} ms"
        advice = _or_interval(measured, _REMEDIES[cause], gap_ms)
        return Explanation(cause, event, f"{_STALLS[cause]} for {late}", advice, f"{short}, {late} of it stalled")
    if not records:
        why = "the last poll gave it no record, and it did something else since then"
        return Explanation(MemberCause.BLOCKED, event, why, _or_interval(measured, "poll more often", gap_ms), short)
    if usual_ms is not None and gap_ms >= _STUCK * records * max(usual_ms, 0.1):
        usual = f"earlier ones took {_number(usual_ms)} ms each"
        why = f"{_count(records)} took {round(gap_ms)} ms{'' if is_over else ' so far'}, {usual}"
        advice = _or_interval(measured, "bound the time of a record, or pause() and poll() while it takes longer", gap_ms)
        return Explanation(MemberCause.BLOCKED, event, why, advice, f"{short}, {_count(records)}, {usual}")
    each_ms = gap_ms / records if is_over else max(gap_ms / records, usual_ms or 0.0)
    duration = f"{_number(each_ms)} ms{' each' if records > 1 else ''}"
    verb = "took" if is_over else "need at least" if records > 1 else "needs at least"
    why = f"{_count(records)} {verb} {duration}"
    fewer = _rounded_down(measured.settings.max_poll_interval_ms / 2 / each_ms)
    advice = _or_interval(measured, f"set max.poll.records to {fewer}" if 0 < fewer < records else "", each_ms * records)
    return Explanation(MemberCause.SLOW_PROCESSING, event, why, advice, f"{short}, {_count(records)} at {duration}")


def _or_interval(measured: Measurements, remedy: str, gap_ms: float) -> str:
    """`remedy`, and a larger max.poll.interval.ms where it is too small for the gap."""
    wanted = _rounded_up(1.5 * gap_ms)
    return _one_or_other(remedy, f"set max.poll.interval.ms to {wanted}" if wanted > measured.settings.max_poll_interval_ms else "")


def _or_session(settings: GroupSettings, since_ms: float, cause: MemberCause) -> str:
    """The cause's remedy, and a longer session where the silence does not fit into it."""
    wanted = min(_rounded_up(1.5 * since_ms), SESSION_MS_MAX)
    return _one_or_other(_REMEDIES[cause], f"set {settings.session_property} to {wanted}" if wanted > settings.session_timeout_ms else "")


def _one_or_other(remedy: str, other: str) -> str:
    return ", or ".join(each for each in (remedy, other) if each)


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


HEARTBEAT: Final = "HEARTBEAT"
LOG_LINES_MAX: Final = 100


def generation_text(generation: int, member_id: str, protocol: str) -> str:
    """As Kafka's Java client writes it."""
    return f"Generation{{generationId={generation}, memberId='{member_id}', protocol='{protocol}'}}"


class Evidence:
    """`log_lines`: what was not logged yet, warnings as explanations, all else as texts. `text`: what the reasons of the next JoinGroup and
    LeaveGroup have in brackets.
    """

    def __init__(self, settings: GroupSettings, *, now_ms: float) -> None:
        self.log_lines: deque[Explanation | str] = deque(maxlen=LOG_LINES_MAX)
        self.text = ""
        self.failure = ""
        self.polls = PollMeter(now_ms)
        self.stalls = StallHistory()
        self.stall_times = Sensor(now_ms)
        self.heartbeat_delays = Sensor(now_ms)
        self.heartbeat_sent_ms: float | None = None
        self._settings = settings
        self._answered_ms = self._responded_ms = now_ms
        self._silence_ms = 0.0
        self._rejoin_due_ms: float | None = None
        self._joining_ms: float | None = None

    # What happens.

    def responded(self, now_ms: float) -> None:
        """A broker has answered a request."""
        self._silence_ms = max(self._silence_ms, now_ms - self._responded_ms)
        self._responded_ms = now_ms

    def stalled(self, late: Lateness, now_ms: float) -> None:
        """The consumer ran late."""
        if late.late_ms < STALL_MS_MIN:
            return
        cause = self.stalls.add(late, now_ms)
        self.stall_times.record(late.late_ms, now_ms)
        if late.late_ms >= (self._settings.heartbeat_interval_ms if late.is_loop else self._settings.session_timeout_ms / 3):
            self.log_lines.append(explain_stall(self._settings, cause, late.late_ms))

    def heartbeat_sent(self, due_ms: float, now_ms: float) -> None:
        """A heartbeat is on its way; it was due at `due_ms`."""
        self.heartbeat_delays.record(max(now_ms - due_ms, 0.0), now_ms)
        self.heartbeat_sent_ms = now_ms

    def heartbeat_answered(self, now_ms: float, *, is_rejoin_due: bool) -> None:
        """The coordinator knows the member; `is_rejoin_due`: the group rebalances, and the application has to poll before it can join."""
        # The coordinator waits for the next one from when it got this one, whenever the response is read.
        self._answered(max(self._answered_ms, now_ms if self.heartbeat_sent_ms is None else self.heartbeat_sent_ms))
        if is_rejoin_due and self._rejoin_due_ms is None:
            self._rejoin_due_ms = now_ms

    def prepared(self) -> None:
        """The application has done its part of a rebalance."""
        self._rejoin_due_ms = None

    def joining(self, now_ms: float) -> None:
        """A JoinGroup is on its way, which the coordinator may hold: no heartbeats are due meanwhile."""
        if self._joining_ms is None:
            self._joining_ms = now_ms

    def joined(self, generation: str, now_ms: float) -> None:
        """JoinGroup succeeded; `generation` as `generation_text` has it."""
        self.log_lines.append(f"Successfully joined group with generation {generation}")
        self._answered(now_ms)

    def assigned(self, generation: str) -> None:
        """The rebalance is over: reasons say nothing more about what led to it."""
        self.log_lines.append(f"Successfully synced group in generation {generation}")
        self.text = ""

    def moved(self, member_id: str, epoch: int, before: str, after: str) -> None:
        """A member of the consumer protocol has another state, by Java's names."""
        self.log_lines.append(f"Member {member_id} with epoch {epoch} transitioned from {before} to {after}.")

    def rejoin_requested(self, reason: str) -> None:
        """The member is going to join again."""
        self.log_lines.append(f"Request joining group due to: {with_evidence(reason, self.text)}")

    def leaving(self, member_id: str, coordinator: int, reason: str) -> None:
        """The member sends LeaveGroup."""
        self.log_lines.append(f"Member {member_id} sending LeaveGroup request to coordinator {coordinator} due to {reason}")

    # What is lost.

    def poll_expired(self, polled_ms: float, now_ms: float) -> None:
        """The member leaves: the application has not polled since `polled_ms`."""
        self._explain(explain_late_poll(self._since_poll(polled_ms, now_ms)))

    def polled_late(self, polled_ms: float, now_ms: float) -> None:
        """The application polls for the first time after that."""
        self._explain(explain_next_poll(self._since_poll(polled_ms, now_ms)))

    def session_over(self, now_ms: float) -> None:
        """No heartbeat was answered for session.timeout.ms."""
        cause = "session timed out without receiving a heartbeat response"
        self.log_lines.append(f"Group coordinator is unavailable or invalid due to cause: {cause}. Rediscovery will be attempted.")
        self._explain(explain_silence(self._since_heartbeat(now_ms)))

    def removed(self, error: str, api: str, generation: str, polled_ms: float, now_ms: float) -> None:
        """The coordinator answers a request with an error that means that it has no such member."""
        if api == HEARTBEAT:
            failed = f"Attempt to heartbeat with {generation} and group instance id {self._settings.instance_id or '(not set)'}"
            self.log_lines.append(f"{failed} failed due to {error}, resetting generation")
        else:
            self.log_lines.append(f"Resetting generation due to: encountered {error} from {api} response")
        measured = self._since_heartbeat(now_ms) if self._rejoin_due_ms is None else self._since_poll(polled_ms, now_ms)
        self._explain(explain_removal(measured, error, api))
        self._rejoin_due_ms = None

    def _answered(self, now_ms: float) -> None:
        self._answered_ms = now_ms
        self._joining_ms = None
        self._silence_ms = 0.0
        self.failure = ""

    def _explain(self, explanation: Explanation) -> None:
        self.log_lines.append(explanation)
        self.text = explanation.evidence

    def _since_poll(self, polled_ms: float, now_ms: float) -> Measurements:
        return self._measured(polled_ms, now_ms, since_ms=polled_ms)

    def _since_heartbeat(self, now_ms: float) -> Measurements:
        return self._measured(now_ms, now_ms, since_ms=self._answered_ms)

    def _measured(self, polled_ms: float, now_ms: float, *, since_ms: float) -> Measurements:
        return Measurements(
            settings=self._settings,
            since_poll_ms=now_ms - polled_ms,
            batch_records=self.polls.batch_records,
            record_ms=self.polls.record_ms(now_ms),
            since_heartbeat_ms=(now_ms if self._joining_ms is None else self._joining_ms) - self._answered_ms,
            since_response_ms=max(self._silence_ms, now_ms - self._responded_ms),
            rejoin_due_ms=None if self._rejoin_due_ms is None else now_ms - self._rejoin_due_ms,
            failure=self.failure,
            stalls=self.stalls.since(since_ms),
        )
