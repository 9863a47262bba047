"""A worker's journal; the workers themselves are shown by tests/clients/test_chaos.py."""

import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.testing.chaos.oracle import read_journal
from ottla.testing.chaos.worker import LIBRARIES, Job, Journal, Positions, Stop, break_connections, main


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.processed([(0, 1, b"one"), (2, 3, b"two")])
    journal.trouble(ValueError("a\nb"))
    journal.misplaced("3 at 5 instead of 4")
    read = read_journal(tmp_path / "journal")
    assert read.processed == [((0, 1), "one"), ((2, 3), "two")]
    assert read.trouble == ["ValueError('a b')"]
    assert read.misplaced == ("3 at 5 instead of 4",)


def test_a_worker_runs_its_library_until_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
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
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ran == [Job("other", "h:1", "g", "t", "range", str(tmp_path / "journal"))]


class Committed:
    """Committed offsets, which are lost while `is_down`."""

    def __init__(self) -> None:
        self.offsets = {0: 10, 1: 0}
        self.is_down = False

    def __call__(self, partitions: Sequence[int]) -> dict[int, int]:
        if self.is_down:
            raise ConnectionError
        return {each: self.offsets[each] for each in partitions}


def misplaced(committed: Committed, *records: tuple[int, int]) -> list[str]:
    found: list[str] = []
    positions = Positions(committed, found.append)
    positions.assigned([0, 1])
    for record in records:
        positions.check(*record)
    return found


def test_records_begin_at_the_committed_offset_and_follow_one_another() -> None:
    assert misplaced(Committed(), (0, 10), (1, 0), (0, 11), (1, 1), (0, 12)) == []
    assert misplaced(Committed(), (0, 9)) == ["0 at 9 instead of 10"]
    assert misplaced(Committed(), (0, 11)) == ["0 at 11 instead of 10"]
    assert misplaced(Committed(), (0, 10), (0, 12)) == ["0 at 12 instead of 11"]
    assert misplaced(Committed(), (0, 10), (0, 10)) == ["0 at 10 instead of 11"]


def test_what_others_committed_meanwhile_is_no_gap() -> None:
    committed, found = Committed(), list[str]()
    positions = Positions(committed, found.append)
    positions.assigned([0])
    committed.offsets[0] = 20
    positions.check(0, 15)
    positions.check(0, 21)
    assert found == ["0 at 21 instead of 16"]


def test_without_an_answer_the_first_record_says_where_a_partition_begins() -> None:
    committed = Committed()
    committed.is_down = True
    assert misplaced(committed, (0, 7), (0, 8)) == []


def test_connections_are_broken_and_other_files_stay() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        near, far = socket.socketpair()
        with server.accept()[0], near, far:
            break_connections()
            assert client.recv(1) == b""
            far.send(b"x")
            assert near.recv(1) == b"x"
