"""`ottla groups --list`: the names of groups, with their types and states when these are asked for.

Groups come sorted by name, where Kafka's tool has no order.
"""

from typing import Final

from ottla.cli.groups.failures import UsageProblem
from ottla.cli.groups.options import GroupsOptions
from ottla.cli.groups.tables import Column, table
from ottla.cli.groups.transcript import Transcript
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import ListedGroup
from ottla.core.java_text import java_order

STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES: Final = ("Classic", "Consumer")
COLUMN_WIDTH: Final = 20
GROUP_WIDTH: Final = 15
GROUP_MARGIN: Final = 10


def parse_states(text: str) -> list[str]:
    """The states of `Stable, empty`, as Kafka writes them, "" for all. Raises UsageProblem."""
    return _parse(text, STATES, f"Invalid state list '{text}'. Valid states are: {', '.join(STATES)}")


def parse_types(text: str) -> list[str]:
    """The group types of `classic,consumer`. Raises UsageProblem."""
    return _parse(text, TYPES, f"Invalid types list '{text}'. Valid types are: {', '.join(TYPES)}")


def _parse(text: str, valid: tuple[str, ...], otherwise: str) -> list[str]:
    if not text:
        return []
    by_name = {name.lower(): name for name in valid}
    asked = [part.strip().lower() for part in text.split(",")]
    if any(name not in by_name for name in asked):
        raise UsageProblem(otherwise)
    return [by_name[name] for name in asked]


def list_groups(admin: AdminClient, options: GroupsOptions, transcript: Transcript) -> None:
    """Say which groups of consumers there are."""
    kinds = parse_types(options.one("type") or "")
    states = parse_states(options.one("state") or "")
    found = admin.list_groups(states=states, kinds=[kind.lower() for kind in kinds])
    groups = sorted(found, key=lambda group: java_order(group.group_id))
    transcript.add(groups=[{"group": group.group_id, "type": kind_of(group), "state": group.state or "Unknown"} for group in groups])
    with_type, with_state = options.has("type"), options.has("state")
    if not with_type and not with_state:
        transcript.say(*(group.group_id for group in groups))
        return
    width = max([GROUP_WIDTH, *(len(group.group_id) for group in groups)]) + GROUP_MARGIN
    columns = [Column("GROUP", width)]
    columns += [Column("TYPE", COLUMN_WIDTH)] * with_type + [Column("STATE", COLUMN_WIDTH)] * with_state
    rows = [[group.group_id, *[kind_of(group)] * with_type, *[group.state or "Unknown"] * with_state] for group in groups]
    transcript.say(*table(columns, rows))


def kind_of(group: ListedGroup) -> str:
    """The type of a group as Kafka writes it."""
    return group.kind.capitalize() or "Unknown"
