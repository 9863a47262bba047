"""One run of `ottla assign`: reads one or two states, assigns their partitions with each assignor, prints what each member gets."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO

from ottla.cli.assign.group_state import read_group_state
from ottla.cli.assign.outcome import Outcome, complete_assignment, outcome, with_ownership
from ottla.cli.assign.state import State, parse_state, state_document
from ottla.cli.assign.text import text
from ottla.cli.groups.client_config import client_settings
from ottla.cli.groups.failures import CommandFailed, of_error
from ottla.client.admin.client import AdminClient
from ottla.client.errors import ClientError
from ottla.core.assignors import Assignor, find_assignor
from ottla.core.assignors._legacy import LEGACY_ASSIGNORS
from ottla.core.errors import PeerError
from ottla.core.text import printable

OK: Final = 0
FAILED: Final = 1
CLIENT_ID: Final = "ottla-assign"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignOptions:
    """The states (a group first, then files; two at most) and the names of the assignors."""

    group: str | None = None
    bootstrap_server: str | None = None
    command_config: str | None = None
    files: tuple[Path, ...] = ()
    assignors: Sequence[str] = ()
    from_assignment: bool = False
    as_json: bool = False


def run(options: AssignOptions, *, out: TextIO, err: TextIO) -> int:
    """Print the report; returns the exit status."""
    try:
        states = list(_states(options))
        outcomes = [_outcome(_named(name), states, from_assignment=options.from_assignment) for name in options.assignors]
    except (CommandFailed, ValueError) as error:
        err.write(f"Error: {printable(str(error))}\n")
        return FAILED
    except (ClientError, PeerError) as error:
        err.write(f"Error: {printable(of_error(error))}\n")
        return FAILED
    if options.as_json:
        document = {"state": state_document(states[-1]), "assignors": [_document(each) for each in outcomes]}
        out.write(json.dumps(document, indent=2) + "\n")
    else:
        out.writelines(f"{line}\n" for line in text(states[-1], outcomes))
    return OK


def _states(options: AssignOptions) -> Iterable[State]:
    if options.group is not None and options.bootstrap_server is not None:
        settings = client_settings(options.bootstrap_server, options.command_config, client_id=CLIENT_ID)
        with AdminClient(settings) as admin:
            yield read_group_state(admin, options.group)
    for path in options.files:
        try:
            yield parse_state(path.read_text())
        except (OSError, ValueError) as error:
            raise CommandFailed(f"{path}: {error}") from error


def _named(name: str) -> Assignor:
    return LEGACY_ASSIGNORS.get(name) or find_assignor(name)


def _outcome(assignor: Assignor, states: Sequence[State], *, from_assignment: bool) -> Outcome:
    """Of the last state, whose members own what the assignor, or with `from_assignment` the present assignment, gave them in the first."""
    first, last = states[0], states[-1]
    before: Mapping[str, Mapping[str, Sequence[int]]] = {each.member_id: each.owned for each in first.members}
    if len(states) == 1:
        return outcome(assignor, last, before)
    if not from_assignment:
        before, _ = complete_assignment(assignor, first)
    owned = {member_id: {topic: list(numbers) for topic, numbers in of.items()} for member_id, of in before.items()}
    return outcome(assignor, replace(last, members=with_ownership(last.members, owned)), before)


def _document(found: Outcome) -> dict[str, Any]:
    moves = [{"topic": each.topic, "partition": each.partition, "from": each.giver, "to": each.taker} for each in found.moves]
    return {
        "name": found.assignor.name,
        "is_cooperative": found.assignor.is_cooperative,
        "assignment": found.assignment,
        "rebalances": found.rebalances,
        "owned": found.owned,
        "stopped": found.stopped,
        "moves": moves,
    }
