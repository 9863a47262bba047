"""Log lines go through a queue: the caller never waits, nothing is lost that is taken in time, and what is lost is counted."""

import logging
import os
import threading
from collections.abc import Iterator

import pytest

from ottla.cli import log_output
from ottla.cli.log_output import QueuedHandler


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test did


def logger_to(handler: QueuedHandler) -> logging.Logger:
    log = logging.Logger("queued")
    log.addHandler(handler)
    return log


def read_all(descriptor: int) -> list[str]:
    with open(descriptor, "rb", closefd=False) as stream:
        return stream.read().decode().splitlines()


def test_lines_are_written_in_order_and_all_of_them_by_the_end(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    handler = QueuedHandler(writer)
    log = logger_to(handler)
    for number in range(100):
        log.warning("line %d \ud800", number)
    handler.close()
    os.close(writer)
    assert read_all(reader) == [f"line {number} \\ud800" for number in range(100)]


def test_a_pipe_that_is_not_read(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pipe
    monkeypatch.setattr(log_output, "QUEUE_CHARACTERS_MAX", 5_000)
    handler = QueuedHandler(writer)
    log = logger_to(handler)
    line = "x" * 99
    for _ in range(5_000):  # more than a pipe and the queue hold: it returns all the same
        log.warning(line)
    lines: list[str] = []
    thread = threading.Thread(target=lambda: lines.extend(read_all(reader)))
    thread.start()
    handler.close()
    os.close(writer)
    thread.join()
    notes = [line for line in lines if "dropped" in line]
    assert notes == [note for note in notes if note.endswith(" log lines were dropped here: stderr was not read")] != []
    assert len(lines) - len(notes) + sum(int(note.split()[0]) for note in notes) == 5_000


def test_the_end_does_not_wait_for_a_reader(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = pipe
    monkeypatch.setattr(log_output, "CLOSE_SECONDS_MAX", 0.05)
    handler = QueuedHandler(writer)
    logger_to(handler).warning("x" * 900_000)
    handler.close()
    assert handler._thread.is_alive(), "it waits in its write"
    os.set_blocking(reader, False)
    while handler._thread.is_alive():
        try:
            os.read(reader, 65536)
        except BlockingIOError:
            handler._thread.join(0.01)


def test_a_descriptor_that_others_made_non_blocking(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.set_blocking(writer, False)
    handler = QueuedHandler(writer)
    logger_to(handler).warning("x" * 500_000)
    lines: list[str] = []
    thread = threading.Thread(target=lambda: lines.extend(read_all(reader)))
    thread.start()
    handler.close()
    os.close(writer)
    thread.join()
    assert [len(line) for line in lines] == [500_000]


def test_a_reader_that_is_gone(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    handler = QueuedHandler(writer)
    log = logger_to(handler)
    log.warning("it is not seen")
    log.warning("nor this")
    handler.close()
    assert not handler._thread.is_alive()


def test_a_line_that_cannot_be_formatted_is_reported(pipe: tuple[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    handler = QueuedHandler(pipe[1])
    logger_to(handler).warning("%d", "no number")
    handler.close()
    assert "Arguments: ('no number',)" in capsys.readouterr().err
