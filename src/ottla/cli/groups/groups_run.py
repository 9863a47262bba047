"""One run of `ottla groups`, from its options to what is printed and the exit status, which is Kafka's: 1 for a command line that makes
no sense, 0 for everything else, refusals and failures included. With --json a failure is 1, too.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.cli.groups.client_config import client_settings
from ottla.cli.groups.deleting import delete_groups, delete_offsets
from ottla.cli.groups.describing import describe_groups
from ottla.cli.groups.failures import CommandFailed, UsageProblem, of_error
from ottla.cli.groups.listing import list_groups
from ottla.cli.groups.options import GroupsOptions, check
from ottla.cli.groups.regex import validate_regex
from ottla.cli.groups.resetting import reset_offsets
from ottla.cli.groups.transcript import Transcript
from ottla.client.admin.client import AdminClient
from ottla.client.errors import ClientError
from ottla.core.errors import PeerError

OK, WRONG = 0, 1
USAGE_HINT: Final = "Try 'ottla groups --help' for help."


class Outcome(NamedTuple):
    """What goes to standard output and standard error, and the exit status."""

    out: str
    err: str
    status: int


def run(options: GroupsOptions, *, now_ms: Callable[[], int], as_json: bool = False) -> Outcome:
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
        return Outcome(transcript.json_text() + "\n", _lines(transcript.err), WRONG if transcript.problems else status)
    return Outcome(_lines(transcript.out), _lines(transcript.err), status)


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
