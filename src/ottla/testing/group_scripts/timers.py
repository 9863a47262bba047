"""Moves in which timers fire: short sessions, and rebalances in which some members do not join.

Timeouts are far apart and long beside everything else, so that the speed of the machine does not change the outcome. A move is a list of
functions that each make one step; the comparison checks that no short timer runs longer than intended.
"""

from collections.abc import Callable
from random import Random

from ottla.testing.group_scripts.correct_moves import correct_join, correct_sync
from ottla.testing.group_scripts.requests import heartbeat, join
from ottla.testing.group_scripts.script_state import Need, ScriptState, Step

SESSION_SHORT_MS = 400
PAUSE_MS = 900
"""Long enough for a short session to have run out."""

StepMakers = list[Callable[[], Step | None]]


def pending_id_runs_out(rng: Random, state: ScriptState) -> StepMakers | None:
    """An id is handed out, does not join in time, and is then unknown."""
    free = [actor for actor in state.actors if not actor.instance_id and not actor.member_id and not state.is_parked(actor)]
    if not free:
        return None
    actor = rng.choice(free)

    def gets_id() -> Step:
        return join(rng, state, actor, "expire-pending-join", lowest=4, session_timeout=SESSION_SHORT_MS).armed(SESSION_SHORT_MS)

    def joins_late() -> Step | None:
        return correct_join(rng, state, actor) if actor.member_id and not state.is_parked(actor) else None

    return [gets_id, lambda: Step(kind="expire-pending", pause_ms=PAUSE_MS), joins_late]


def static_member_runs_out(rng: Random, state: ScriptState) -> StepMakers | None:
    """A static member comes back with a short session, which counts from its first heartbeat, and is never learn of again."""
    statics = [actor for actor in state.joined() if actor.instance_id and not state.is_parked(actor)]
    statics = [actor for actor in statics if not (actor.leads and len(state.description.members) > 2)]
    if state.description.state != "Stable" or not statics:
        return None
    actor = rng.choice(statics)

    def rejoins() -> Step:
        return join(rng, state, actor, "expire-static-join", member_id="", session_timeout=SESSION_SHORT_MS)

    def sends_heartbeat() -> Step:
        return heartbeat(rng, state, actor, "expire-static-heartbeat").armed(SESSION_SHORT_MS)

    return [rejoins, sends_heartbeat, lambda: _wait_unless_parked(state, actor.number, "expire-static")]


def lone_member_runs_out(rng: Random, state: ScriptState) -> StepMakers | None:
    """The only member joins again with a short session, fetches its assignment or not, and sends nothing more."""
    joined = state.joined()
    pending = [actor for actor in state.actors if actor.member_id and actor.member_id not in state.description.members]
    if state.description.state != "Stable" or len(state.description.members) != 1 or len(joined) != 1 or pending or state.parked:
        return None
    (actor,) = joined
    if not actor.leads:
        return None

    def joins() -> Step:
        return join(rng, state, actor, "expire-alone-join", session_timeout=SESSION_SHORT_MS).armed(SESSION_SHORT_MS)

    def syncs() -> Step | None:
        return correct_sync(rng, state, actor) if actor.need is Need.SYNC and not state.is_parked(actor) else None

    wait: Callable[[], Step | None] = lambda: _wait_unless_parked(state, actor.number, "expire-alone")  # noqa: E731
    return [joins, syncs, wait] if rng.random() < 0.6 else [joins, wait]


TIMER_MOVES = (pending_id_runs_out, static_member_runs_out, lone_member_runs_out)


def absent_members(rng: Random, state: ScriptState) -> set[int]:
    """Members of a hurried script that do not join the next rebalance.

    The leader is not among them if several members remain, since Kafka then chooses an arbitrary leader.
    """
    absent = {actor.number for actor in state.joined() if rng.random() < 0.3}
    awake = [actor for actor in state.joined() if actor.number not in absent]
    if len(awake) >= 2:
        absent -= {actor.number for actor in state.joined() if actor.leads}
    return absent


def is_stable(state: ScriptState) -> bool:
    """Whether no timer of a rebalance runs: the group is empty, or stable with every member synced."""
    if state.description.state in ("Empty", "Dead"):
        return True
    if state.description.state != "Stable" or state.parked:
        return False
    owners = [state.owner(member_id) for member_id in state.description.members]
    newest = max((actor.generation for actor in state.actors), default=-1)
    return all(owner is not None and owner.need is Need.NOTHING and owner.generation == newest for owner in owners)


def _wait_unless_parked(state: ScriptState, actor: int, kind: str) -> Step | None:
    if any(step.actor == actor for step in state.parked.values()):
        state.is_over = True  # its session would begin to run at some later moment
        return None
    return Step(kind=kind)
