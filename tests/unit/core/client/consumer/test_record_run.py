"""A run is taken row by row, and ended by another thread without a row that is counted twice or not at all."""

import sys
import threading

from ottla.core.client.consumer.record_buffer import NOTHING
from ottla.core.client.consumer.record_run import NO_RUN, RecordRun, next_rows
from ottla.core.model import TopicPartition


def run_of(first: int, end: int) -> RecordRun:
    return RecordRun(TopicPartition("t", 0), NOTHING, first, end, now_ms=1.0, ends_ms=2.0)


def test_rows_come_in_order_and_those_that_were_taken_are_counted() -> None:
    run = run_of(3, 7)
    assert [run.rows.popleft(), run.rows.popleft()] == [3, 4]
    assert run.end() == 2
    assert not run.rows


def test_a_run_has_twice_the_rows_that_were_taken_before() -> None:
    assert [next_rows(taken) for taken in (0, 1, 32, 500, 4_000)] == [32, 32, 64, 1_000, 4_096]


def test_no_run_has_no_rows_and_is_over() -> None:
    assert (len(NO_RUN.rows), NO_RUN.end()) == (0, 0)
    assert NO_RUN.ends_ms < -1e300


def test_a_row_is_taken_or_left_while_another_thread_ends_the_run() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            run, counted = run_of(0, 500), []
            thread = threading.Thread(target=lambda run=run, counted=counted: counted.append(run.end()))
            taken = []
            try:
                while True:
                    taken.append(run.rows.popleft())
                    if len(taken) == 100:
                        thread.start()
            except IndexError:
                thread.join()
            assert taken == list(range(len(taken)))
            assert counted == [len(taken)]
    finally:
        sys.setswitchinterval(interval)
