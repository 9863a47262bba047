"""A program that is killed with all that it has started, and started again."""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ottla.testing.kit.waiting import wait_until
from ottla.testing.streaming_kills.programs import Program, kind_of

SCRIPT = "echo the query failed: once; sleep 100 & wait"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program("spark", tmp_path / "0-spark", ["/bin/sh", "-c", SCRIPT])
    yield made
    made.kill()


def test_it_is_killed_and_started_again(program: Program):
    assert (program.is_running, program.said(), program.workers()) == (False, "", [])
    for starts in (1, 2):
        program.start()
        assert program.is_running
        wait_until(lambda: program.failed_queries() == starts, program.said)  # noqa: B023 - called at once
        program.kill()
        assert not program.is_running


def test_what_it_has_started_is_killed_with_it(tmp_path: Path):
    program = Program("spark", tmp_path / "0-spark", ["/bin/sh", "-c", "exec sh -c 'sh -c \"sleep 100; true\" pyspark.worker; true' x"])
    program.start()
    (worker,) = wait_until(program.workers, program.said)
    assert kind_of(worker) == "one that reads, or their parent"
    program.kill()
    assert program.workers() == []
    wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "the worker is gone")


def test_it_stands_still_while_it_is_frozen(tmp_path: Path):
    program = Program("spark", tmp_path / "0-spark", ["/bin/sh", "-c", "while :; do echo tick; sleep 0.01; done"])
    program.start()
    try:
        wait_until(program.said, "it runs")
        program.freeze()
        wait_until(lambda: psutil.Process(program.pid).status() == psutil.STATUS_STOPPED, "it stands still")
        said = program.said()
        program.thaw()
        wait_until(lambda: program.said() != said, "it continues")
    finally:
        program.kill()


def test_it_may_end_by_itself(tmp_path: Path):
    program = Program(
        "plain", tmp_path / "1-plain", ["/bin/sh", "-c", "trap 'echo stopped; exit' TERM; echo up; while :; do sleep 0.01; done"]
    )
    program.start()
    wait_until(lambda: "up" in program.said(), program.said)
    program.stop()
    assert program.said().endswith("stopped\n")
    program.stop()


def test_a_process_that_is_no_worker_has_no_kind():
    assert kind_of(psutil.Process(os.getppid())) == "one that has ended"
