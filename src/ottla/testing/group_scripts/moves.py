"""The moves of a scripted group, with their weights, beside what correct clients do.

A move makes a step from the script's state, or None where it is not possible.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ottla.testing.group_scripts.admin_moves import delete_groups, delete_topic, describe_groups, find_coordinator, list_groups
from ottla.testing.group_scripts.join_moves import join_invalid, join_wrong, pending_as_static, rejoin, rejoin_changed, static_bounce
from ottla.testing.group_scripts.member_moves import heartbeat_right, heartbeat_wrong, leave_right, leave_several, leave_wrong, sync_wrong
from ottla.testing.group_scripts.offset_moves import commit_right, commit_unusual, commit_wrong, fetch, offset_delete
from ottla.testing.group_scripts.script_state import ScriptState, Step


@dataclass(frozen=True, slots=True)
class Move:
    """One kind of next step, and its weight."""

    weight: float
    make: Callable[[Random, ScriptState], Step | None]


MOVES = (
    Move(3, rejoin),
    Move(4, rejoin_changed),
    Move(5, static_bounce),
    Move(4, join_wrong),
    Move(3, join_invalid),
    Move(1.5, pending_as_static),
    Move(9, sync_wrong),
    Move(2, heartbeat_right),
    Move(5, heartbeat_wrong),
    Move(3, leave_right),
    Move(4, leave_wrong),
    Move(3, leave_several),
    Move(6, commit_right),
    Move(4, commit_wrong),
    Move(8, commit_unusual),
    Move(6, fetch),
    Move(4, offset_delete),
    Move(3, describe_groups),
    Move(3, list_groups),
    Move(1, find_coordinator),
    Move(2, delete_groups),
    Move(4, delete_topic),
)
