"""Stalls of a consumer: the thread, or the event loop, that sends its heartbeats ran late. Which kind of stall, from what was measured.

A thread of Python that waits for the GIL wakes up in each switch interval to ask for it (CPython: `take_gil`); a process that is
stopped does not run at all. So the voluntary context switches of the thread tell the two apart, whatever the CPU does meanwhile.
"""

from collections import deque
from typing import Final, NamedTuple

from ottla.core.reason_evidence import MemberCause

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
