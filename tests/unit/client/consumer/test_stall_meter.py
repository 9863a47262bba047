"""How late a thread comes back from waiting: numbers with a clock of values, and this thread's own."""

import ctypes
import gc
import sys
import threading
import time
from collections.abc import Callable

from ottla.client.consumer.stall_meter import PAUSES_MAX, GcPauses, StallMeter, Usage, usage

ATTEMPTS_MAX = 5
"""On a busy machine a thread may get no CPU in its turn."""


class Machine:
    def __init__(self) -> None:
        self.now = 10.0
        self.used = Usage(1.0, 5.0, 100)
        self.pauses = GcPauses(clock=lambda: self.now)
        self.meter = StallMeter(self.pauses, clock=lambda: self.now, usage=lambda: self.used)

    def run(self, seconds: float, own: float = 0.0, process: float = 0.0, switches: int = 0) -> None:
        self.now += seconds
        before = self.used
        assert before.switches is not None
        self.used = Usage(before.own_cpu + own, before.process_cpu + process, before.switches + switches)


def test_a_thread_in_time_is_not_late() -> None:
    machine = Machine()
    machine.meter.waits(1_000)
    machine.run(1.02)
    machine.meter.woke()
    assert machine.meter.late() == []


def test_nothing_is_measured_before_the_first_wait() -> None:
    machine = Machine()
    machine.run(60.0)
    assert machine.meter.late() == []


def test_what_was_used_while_it_was_late() -> None:
    machine = Machine()
    machine.meter.waits(1_000)
    machine.run(3.0, own=0.125, process=2.5, switches=7)
    (late,) = machine.meter.late()
    assert (late.late_ms, late.own_cpu_ms, late.switches) == (2_000, 125, 7)
    assert late.process_cpu_ms == 1_500, "for a second it waited as it should"
    assert machine.meter.late() == [], "it is reported once"


def test_after_an_early_wake_the_work_is_measured() -> None:
    machine = Machine()
    machine.meter.waits(60_000)
    machine.run(0.5)
    machine.meter.woke()
    machine.run(0.25)
    (late,) = machine.meter.late()
    assert late.late_ms == 250


def test_an_event_loop_is_one() -> None:
    machine = Machine()
    meter = StallMeter(machine.pauses, clock=lambda: machine.now, usage=lambda: machine.used, is_loop=True)
    meter.waits(1_000)
    machine.run(2.0)
    (late,) = meter.late()
    assert (late.late_ms, late.is_loop) == (1_000, True)


def test_a_stall_before_a_wait_is_reported_after_it() -> None:
    machine = Machine()
    machine.meter.waits(0)
    machine.run(0.5)
    machine.meter.waits(1_000)
    machine.run(1.25)
    assert [late.late_ms for late in machine.meter.late()] == [500, 250]


def test_collections_are_those_while_it_was_late() -> None:
    machine = Machine()
    machine.meter.waits(1_000)
    machine.pauses._collecting("start", {})
    machine.run(3.0)
    machine.pauses._collecting("stop", {})
    machine.run(1.0)
    (late,) = machine.meter.late()
    assert (late.late_ms, late.gc_ms) == (3_000, 2_000)


def test_waiting_for_the_gil_and_waiting_for_a_lock_differ_in_context_switches() -> None:
    """The claim that the decision rests on: a thread of CPython wakes up in each switch interval to ask for the GIL."""
    held_seconds = 0.3

    def hold_a_lock(lock: threading.Lock) -> None:
        time.sleep(held_seconds)
        lock.release()

    def hold_the_gil(lock: threading.Lock) -> None:
        lock.release()
        ctypes.PyDLL(None).usleep(int(held_seconds * 1_000_000))

    few = held_seconds / 8 / sys.getswitchinterval()
    assert any(switches_while(hold_a_lock) < few for _ in range(ATTEMPTS_MAX))
    assert any(switches_while(hold_the_gil) > few for _ in range(ATTEMPTS_MAX))


def switches_while(hold: Callable[[threading.Lock], None]) -> int:
    """The voluntary context switches of a thread that needs a lock, or the GIL, while this thread holds it."""
    lock, found = threading.Lock(), []
    lock.acquire()

    def measure() -> None:
        before = usage().switches
        with lock:
            after = usage().switches
        assert before is not None
        assert after is not None
        found.append(after - before)

    thread = threading.Thread(target=measure)
    thread.start()
    hold(lock)
    thread.join()
    return found[0]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def pause(pauses: GcPauses, clock: Clock, seconds: float) -> None:
    pauses._collecting("start", {})
    clock.now += seconds
    pauses._collecting("stop", {})


def test_real_collections_are_counted_while_it_measures() -> None:
    pauses = GcPauses()
    before = list(gc.callbacks)
    pauses.start()
    gc.collect()
    pauses.stop()
    measured = pauses.metrics()
    gc.collect()
    assert measured == pauses.metrics()
    assert measured["gc-total"] >= 1
    assert 0 < measured["gc-time-max"] <= measured["gc-time-total"]
    assert gc.callbacks == before


def test_what_lies_between_two_times() -> None:
    clock = Clock()
    pauses = GcPauses(clock=clock)
    clock.now = 1.0
    pause(pauses, clock, 0.5)
    assert pauses.inside_ms(0, 5_000) == 500
    assert pauses.inside_ms(1_200, 1_300) == 100
    assert pauses.inside_ms(1_500, 5_000) == 0
    pauses._collecting("start", {})
    assert pauses.inside_ms(1_400, 1_800) == 400, "one that has not ended counts"


def test_short_ones_are_counted_and_not_kept() -> None:
    clock = Clock()
    pauses = GcPauses(clock=clock)
    pause(pauses, clock, 0.009)
    assert pauses.inside_ms(0, 100) == 0
    assert pauses.metrics()["gc-total"] == 1
    for _ in range(PAUSES_MAX + 1):
        pause(pauses, clock, 1.0)
    assert round(pauses.inside_ms(0, 1_000_000)) == PAUSES_MAX * 1_000


def test_one_that_began_before_the_measuring_is_left_out() -> None:
    pauses = GcPauses()
    pauses._collecting("stop", {})
    assert pauses.metrics()["gc-total"] == 0
