"""One run of `ottla watch`, from its options to its exit status: looks at intervals, a line of progress, and a summary at the end.

Ctrl-C and SIGTERM end it at any moment; what is stored by then is whole.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, TextIO

from ottla.cli.clusters import CommandFailed, client_settings, of_error
from ottla.cli.signals import Stopped, raising_stopped
from ottla.client.admin.client import AdminClient
from ottla.client.errors import ClientError
from ottla.client.fetch.fetcher import Fetcher
from ottla.history.sources.archive import ArchiveWriter
from ottla.history.watch import Watch, WatchSummary
from ottla.log.files import OsFiles
from ottla.protocol.errors import PeerError, StorageError
from ottla.text import printable

_CLEAR_LINE: Final = "\r\x1b[K"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """`groups` None: all. `duration_s` None: until a signal."""

    bootstrap_server: str
    output: str
    groups: Sequence[str] | None = None
    command_config: str | None = None
    interval_s: float = 5.0
    duration_s: float | None = None
    as_json: bool = False


class Display:
    """What a person or a program sees: sentences to `err`, a line of progress there if it is a terminal, JSON to `out`."""

    def __init__(self, out: TextIO, err: TextIO, *, as_json: bool) -> None:
        self.summary = WatchSummary()
        self._out = out
        self._err = err
        self._as_json = as_json
        self._has_progress = err.isatty() and not as_json

    def say(self, text: str) -> None:
        """A sentence."""
        self._err.write(f"{_CLEAR_LINE if self._has_progress else ''}{text}\n")
        self._err.flush()

    def progress(self) -> None:
        """The figures so far."""
        if self._has_progress:
            self._err.write(f"{_CLEAR_LINE}{_figures(self.summary)} (Ctrl-C ends)")
            self._err.flush()

    def look(self) -> None:
        """The state after a look."""
        self.progress()
        if self._as_json:
            self._line(is_end=False)

    def end(self, output: str) -> None:
        """The summary."""
        if self._as_json:
            self._line(is_end=True)
            return
        if self._has_progress:
            self._err.write(_CLEAR_LINE)
            self._err.flush()
        self._out.write(f"{_figures(self.summary)}, in {printable(output)}\n")

    def _line(self, *, is_end: bool) -> None:
        self._out.write(json.dumps({**self.summary.to_dict(), "ended": is_end}) + "\n")
        self._out.flush()


def _figures(summary: WatchSummary) -> str:
    return f"looks: {summary.looks}, groups: {summary.groups}, records: {summary.records:,}, bytes stored: {summary.stored_bytes:,}"


def run(options: WatchOptions, *, out: TextIO, err: TextIO, clock: Callable[[], float] = time.monotonic) -> int:
    """Watch until the time is over or a signal comes; the exit status: 1 if it could not begin or the disk refuses, else 0."""
    display = Display(out, err, as_json=options.as_json)
    problem: str | None = None
    with ExitStack() as stack:
        stack.enter_context(raising_stopped())
        try:
            watch = _open(options, display, stack)
            watch.look()
            _look_at_intervals(watch, options, display, clock)
        except (ClientError, PeerError) as error:
            problem = of_error(error)
        except (CommandFailed, StorageError) as error:
            problem = str(error)
        except Stopped:
            pass
    if problem is not None:
        display.say(f"Error: {problem}")
    if problem is None or display.summary.looks:
        display.end(options.output)
    return 0 if problem is None else 1


def _open(options: WatchOptions, display: Display, stack: ExitStack) -> Watch:
    try:
        settings = client_settings(options.bootstrap_server, options.command_config, client_id="ottla-watch")
        admin = stack.enter_context(AdminClient(settings))
        fetcher = stack.enter_context(Fetcher(settings))
    except ValueError as error:
        raise CommandFailed(f"--bootstrap-server: {error}") from error
    archive = ArchiveWriter(OsFiles(options.output), now_ms=_now_ms(), groups=options.groups)
    stack.callback(archive.close)
    watch = Watch(
        admin=admin, fetcher=fetcher, archive=archive, groups=options.groups, now_ms=_now_ms, say=display.say, show=display.progress
    )
    display.summary = watch.summary
    return watch


def _look_at_intervals(watch: Watch, options: WatchOptions, display: Display, clock: Callable[[], float]) -> None:
    started = next_look = clock()
    while True:
        display.look()
        next_look = max(next_look + options.interval_s, clock())
        left = None if options.duration_s is None else started + options.duration_s - clock()
        wait_s = next_look - clock()
        if left is not None and left <= wait_s:
            time.sleep(max(0.0, left))
            watch.try_look()
            return
        time.sleep(max(0.0, wait_s))
        watch.try_look()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
