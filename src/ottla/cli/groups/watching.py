"""`ottla groups --describe --watch`: the same description again and again, until Ctrl-C.

Each look is a run of its own, with its own connections: a broker that restarts in between is an error in that look, not the end.
"""

import json
import time
from collections.abc import Callable
from typing import Final, TextIO

from ottla.cli.groups.failures import CommandFailed, UsageProblem
from ottla.cli.groups.groups_run import OK, WRONG, Outcome, run
from ottla.cli.groups.options import GroupsOptions, check, parse_number

SECONDS_DEFAULT: Final = 2
SECONDS_MAX: Final = 86_400
_CLEAR_SCREEN: Final = "\x1b[H\x1b[2J"


def watch(options: GroupsOptions, *, out: TextIO, err: TextIO, as_json: bool = False, sleep: Callable[[float], None] = time.sleep) -> int:
    """Describe at intervals; returns the exit status: 0 after Ctrl-C, 1 for a command line that makes no sense."""
    try:
        interval_s = _interval_s(options)
        check_all(options)
    except (CommandFailed, UsageProblem) as error:
        err.write(f"{error}\n")
        return WRONG
    try:
        while True:
            _show(run(options, now_ms=lambda: time.time_ns() // 1_000_000, as_json=as_json), out=out, err=err, as_json=as_json)
            sleep(interval_s)
    except KeyboardInterrupt:
        return OK


def check_all(options: GroupsOptions) -> None:
    """Raise UsageProblem where the options do not fit together."""
    for _ in check(options):
        pass
    assert options.action == "describe", "--watch goes with no other action"


def _interval_s(options: GroupsOptions) -> int:
    text = options.one("watch")
    seconds = parse_number(text, "watch") if text else SECONDS_DEFAULT
    if not 1 <= seconds <= SECONDS_MAX:
        raise CommandFailed(f"--watch {seconds}: write a number of seconds from 1 to {SECONDS_MAX}")
    return seconds


def _show(outcome: Outcome, *, out: TextIO, err: TextIO, as_json: bool) -> None:
    if out.isatty():
        out.write(_CLEAR_SCREEN)
    err.write(outcome.err)
    err.flush()
    out.write(json.dumps(json.loads(outcome.out)) + "\n" if as_json else outcome.out)
    out.flush()
