"""Tests of writing to pipes and files."""

import os
import threading
from pathlib import Path

import pytest

from ottla.cli.consume.output import write_all
from ottla.cli.signals import Stopped, StopRequest

DATA = bytes(range(256)) * 4_000


def test_a_file_gets_all_of_it(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        write_all(DATA, StopRequest(), out.fileno())
        write_all(b"", StopRequest(), out.fileno())
    assert (tmp_path / "out").read_bytes() == DATA


def test_a_pipe_gets_all_of_it_even_after_a_signal() -> None:
    reader, writer = os.pipe()
    stop = StopRequest()
    stop.is_set = True
    thread = threading.Thread(target=lambda: (write_all(DATA, stop, writer), os.close(writer)))
    thread.start()
    with os.fdopen(reader, "rb") as read:
        assert read.read() == DATA
    thread.join()


def test_a_pipe_that_no_program_reads_is_not_waited_for_after_a_signal() -> None:
    reader, writer = os.pipe()
    stop = StopRequest()
    stop.is_set = True
    with os.fdopen(reader), os.fdopen(writer), pytest.raises(Stopped):
        write_all(DATA, stop, writer)


def test_a_pipe_that_is_closed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb"), pytest.raises(BrokenPipeError):
        write_all(DATA, StopRequest(), writer)
