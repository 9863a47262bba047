"""A worker's journal; the workers themselves are shown by tests/clients/test_chaos.py."""

import os
import signal
from pathlib import Path

import pytest

from ottla.testing.chaos.oracle import read_journal
from ottla.testing.chaos.worker import LIBRARIES, Job, Journal, Stop, main


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.processed([(0, 1, b"one"), (2, 3, b"two")])
    journal.trouble(ValueError("a\nb"))
    read = read_journal(tmp_path / "journal")
    assert read.processed == [((0, 1), "one"), ((2, 3), "two")]
    assert read.trouble == ["ValueError('a b')"]


def test_a_worker_runs_its_library_until_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    ran: list[Job] = []

    def library(job: Job, journal: Journal, stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        while not stop.is_set:
            signal.pause()
        ran.append(job)

    monkeypatch.setitem(LIBRARIES, "other", library)
    try:
        main(["other", "h:1", "g", "t", "range", str(tmp_path / "journal")])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ran == [Job("other", "h:1", "g", "t", "range", str(tmp_path / "journal"))]
