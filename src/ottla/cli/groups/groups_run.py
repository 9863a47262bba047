"""One run of `ottla groups`, from its options to what is printed and the exit status, or one after another with `--watch`.

The status is Kafka's: 1 for a command line that makes no sense, 0 for everything else, refusals and failures included. With --json a
failure is 1, too.
"""

import json
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TextIO

from ottla.cli.clusters import CommandFailed, UsageProblem, client_settings, of_error
from ottla.cli.groups.describing import describe_groups, list_groups
from ottla.cli.groups.options import GroupsOptions, Transcript, check, parse_number
from ottla.cli.groups.regex import validate_regex
from ottla.cli.groups.resetting import delete_groups, delete_offsets, reset_offsets
from ottla.client.admin.client import AdminClient
from ottla.client.errors import ClientError
from ottla.protocol.errors import PeerError

OK, WRONG = 0, 1
USAGE_HINT: Final = "Try 'ottla groups --help' for help."


class RunResult(NamedTuple):
    """What goes to standard output and standard error, and the exit status."""

    out: str
    err: str
    status: int


def run(options: GroupsOptions, *, now_ms: Callable[[], int], as_json: bool = False) -> RunResult:
    """Does what the options ask for; `now_ms` is the time in milliseconds since 1970."""
    transcript = Transcript()
    status = OK
    try:
        for warning in check(options):
            transcript.warn(warning)
        _act(options, transcript, now_ms)
    except UsageProblem as problem:
        transcript.warn(str(problem), USAGE_HINT)
        transcript.problems.append(str(problem))
        status = WRONG
    except CommandFailed as failure:
        transcript.error(f"Executing consumer group command failed due to {failure}")
    except (ClientError, PeerError) as error:
        transcript.error(f"Executing consumer group command failed due to {of_error(error)}")
    if as_json:
        return RunResult(transcript.json_text() + "\n", _lines(transcript.err), WRONG if transcript.problems else status)
    return RunResult(_lines(transcript.out), _lines(transcript.err), status)


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _act(options: GroupsOptions, transcript: Transcript, now_ms: Callable[[], int]) -> None:
    action = options.action
    if action == "validate-regex":
        validate_regex(options.one("validate-regex") or "", transcript)
        return
    with _admin(options, transcript) as admin:
        if action == "list":
            list_groups(admin, options, transcript)
        elif action == "describe":
            describe_groups(admin, options, transcript)
        elif action == "delete":
            delete_groups(admin, options, transcript)
        elif action == "delete-offsets":
            delete_offsets(admin, options, transcript)
        else:
            reset_offsets(admin, options, transcript, now_ms)


def _admin(options: GroupsOptions, transcript: Transcript) -> AdminClient:
    try:
        settings = client_settings(options.one("bootstrap-server") or "", options.one("command-config"), client_id="ottla-groups")
        return AdminClient(settings, timeout_ms=max(options.timeout_ms, 0))
    except ValueError as error:
        transcript.warn(f"--bootstrap-server: {error}")
        raise CommandFailed("Failed to create new KafkaAdminClient") from error


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


def _show(outcome: RunResult, *, out: TextIO, err: TextIO, as_json: bool) -> None:
    if out.isatty():
        out.write(_CLEAR_SCREEN)
    err.write(outcome.err)
    err.flush()
    out.write(json.dumps(json.loads(outcome.out)) + "\n" if as_json else outcome.out)
    out.flush()
