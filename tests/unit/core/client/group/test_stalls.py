"""Which kind of stall: from garbage collection, CPU time and context switches."""

import pytest

from ottla.core.client.group.stalls import STALLS_MAX, Lateness, StallHistory, stall_cause
from ottla.core.reason_evidence import MemberCause

STOPPED = Lateness(late_ms=1_000, gc_ms=0, own_cpu_ms=1, process_cpu_ms=2, switches=1)


@pytest.mark.parametrize(
    ("late", "cause"),
    [
        (STOPPED, MemberCause.STOPPED),
        (STOPPED._replace(gc_ms=900, process_cpu_ms=900, switches=190), MemberCause.GARBAGE_COLLECTION),
        (STOPPED._replace(gc_ms=100, switches=190), MemberCause.GIL_HELD),
        (STOPPED._replace(switches=25), MemberCause.GIL_HELD),
        (STOPPED._replace(switches=25, process_cpu_ms=990), MemberCause.GIL_HELD),
        (STOPPED._replace(switches=24), MemberCause.STOPPED),
        (STOPPED._replace(switches=24, switch_interval_ms=50), MemberCause.GIL_HELD),
        (STOPPED._replace(process_cpu_ms=990), MemberCause.THREAD_LATE),
        (STOPPED._replace(own_cpu_ms=600, process_cpu_ms=600), MemberCause.THREAD_LATE),
        (STOPPED._replace(switches=None), MemberCause.STOPPED),
        (STOPPED._replace(is_loop=True), MemberCause.LOOP_BLOCKED),
        (STOPPED._replace(is_loop=True, gc_ms=900), MemberCause.GARBAGE_COLLECTION),
        (STOPPED._replace(switches=None, process_cpu_ms=990), MemberCause.GIL_HELD),
    ],
)
def test_causes(late: Lateness, cause: MemberCause) -> None:
    assert stall_cause(late) is cause


def test_a_history_sums_what_came_after_a_time() -> None:
    history = StallHistory()
    assert history.add(STOPPED, 2_000) is MemberCause.STOPPED
    history.add(STOPPED._replace(gc_ms=500, late_ms=500), 3_000)
    assert history.since(0) == {MemberCause.STOPPED: 1_000, MemberCause.GARBAGE_COLLECTION: 500}
    assert history.since(1_600) == {MemberCause.STOPPED: 400, MemberCause.GARBAGE_COLLECTION: 500}
    assert history.since(3_000) == {}
    assert history.total_ms == history.since(0)


def test_a_history_is_bounded_and_its_totals_are_not_lost() -> None:
    history = StallHistory()
    for number in range(STALLS_MAX + 5):
        history.add(STOPPED, 1_000 * (number + 1))
    assert sum(history.since(0).values()) == STALLS_MAX * 1_000
    assert history.total_ms[MemberCause.STOPPED] == (STALLS_MAX + 5) * 1_000
