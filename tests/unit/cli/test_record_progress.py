"""Tests of the line of progress."""

import io

from ottla.cli.record_progress import RecordProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_counts_at_intervals() -> None:
    err, times = Terminal(), iter([0.0, 0.1, 2.0, 2.0])
    progress = RecordProgress(err, clock=lambda: next(times))
    progress.add(10, 1_000)
    assert err.getvalue() == ""
    progress.add(1_990, 999_000)
    assert err.getvalue() == "\r\x1b[K2,000 records, 1.0 MB, 1,000 records/s (Ctrl-C ends)"
    progress.end()
    assert err.getvalue().endswith("\r\x1b[K")


def test_a_sentence_replaces_the_line() -> None:
    err = Terminal()
    RecordProgress(err).say("The broker is gone.")
    assert err.getvalue() == "\r\x1b[KThe broker is gone.\n"


def test_a_file_gets_sentences_only() -> None:
    for err, is_shown in ((io.StringIO(), True), (Terminal(), False)):
        times = iter(range(100))
        progress = RecordProgress(err, is_shown=is_shown, clock=lambda times=times: float(next(times)))  # type: ignore[misc]
        progress.add(1, 1)
        progress.say("A sentence.")
        progress.end()
        assert err.getvalue() == "A sentence.\n"
        assert (progress.records, progress.size_bytes) == (1, 1)
