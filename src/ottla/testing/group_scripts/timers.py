"""Scripts in which time runs out: short sessions, and rounds of which some members hear nothing.

Deadlines are far apart and everything else is quick beside them, so that real time does not decide what happens. A plan is a list of
makers of steps, each asked when its turn comes; who plays it sees to it that no short timer runs longer than planned.
"""

from collections.abc import Callable
from random import Random

from ottla.testing.group_scripts.moves import honest_join, honest_sync
from ottla.testing.group_scripts.requests import heartbeat, join
from ottla.testing.group_scripts.view import Need, Step, View

SESSION_SHORT_MS = 400
PAUSE_MS = 900
"""Long enough for a short session to have run out."""

Plan = list[Callable[[], Step | None]]


def pending_id_runs_out(rng: Random, view: View) -> Plan | None:
    """An id is handed out, nobody joins with it in time; it is unknown then."""
    free = [actor for actor in view.actors if not actor.instance_id and not actor.member_id and not view.is_parked(actor)]
    if not free:
        return None
    actor = rng.choice(free)

    def asks() -> Step:
        return join(rng, view, actor, "expire-pending-join", lowest=4, session_timeout=SESSION_SHORT_MS).armed(SESSION_SHORT_MS)

    def comes_late() -> Step | None:
        return honest_join(rng, view, actor) if actor.member_id and not view.is_parked(actor) else None

    return [asks, lambda: Step(kind="expire-pending", pause_ms=PAUSE_MS), comes_late]


def static_member_runs_out(rng: Random, view: View) -> Plan | None:
    """A static member comes back with a short session, which counts from its first heartbeat, and is never heard of again."""
    statics = [actor for actor in view.joined() if actor.instance_id and not view.is_parked(actor)]
    statics = [actor for actor in statics if not (actor.leads and len(view.picture.members) > 2)]
    if view.picture.state != "Stable" or not statics:
        return None
    actor = rng.choice(statics)

    def comes_back() -> Step:
        return join(rng, view, actor, "expire-static-join", member_id="", session_timeout=SESSION_SHORT_MS)

    def beats() -> Step:
        return heartbeat(rng, view, actor, "expire-static-heartbeat").armed(SESSION_SHORT_MS)

    return [comes_back, beats, lambda: _wait_unless_parked(view, actor.number, "expire-static")]


def lone_member_runs_out(rng: Random, view: View) -> Plan | None:
    """The only member joins again with a short session, fetches its plan or not, and is gone."""
    joined = view.joined()
    asked = [actor for actor in view.actors if actor.member_id and actor.member_id not in view.picture.members]
    if view.picture.state != "Stable" or len(view.picture.members) != 1 or len(joined) != 1 or asked or view.parked:
        return None
    (actor,) = joined
    if not actor.leads:
        return None

    def joins() -> Step:
        return join(rng, view, actor, "expire-alone-join", session_timeout=SESSION_SHORT_MS).armed(SESSION_SHORT_MS)

    def syncs() -> Step | None:
        return honest_sync(rng, view, actor) if actor.need is Need.SYNC and not view.is_parked(actor) else None

    wait: Callable[[], Step | None] = lambda: _wait_unless_parked(view, actor.number, "expire-alone")  # noqa: E731
    return [joins, syncs, wait] if rng.random() < 0.6 else [joins, wait]


TIMER_MOVES = (pending_id_runs_out, static_member_runs_out, lone_member_runs_out)


def lazy_members(rng: Random, view: View) -> set[int]:
    """Members of a hurried script that will hear nothing of the next round.

    A leader that is lost among several leaves it open who leads next, so then it stays awake.
    """
    lazy = {actor.number for actor in view.joined() if rng.random() < 0.3}
    awake = [actor for actor in view.joined() if actor.number not in lazy]
    if len(awake) >= 2:
        lazy -= {actor.number for actor in view.joined() if actor.leads}
    return lazy


def is_calm(view: View) -> bool:
    """Whether no timer of a round runs: the group is empty, or stable with every member synced."""
    if view.picture.state in ("Empty", "Dead"):
        return True
    if view.picture.state != "Stable" or view.parked:
        return False
    owners = [view.owner(member_id) for member_id in view.picture.members]
    newest = max((actor.generation for actor in view.actors), default=-1)
    return all(owner is not None and owner.need is Need.NOTHING and owner.generation == newest for owner in owners)


def _wait_unless_parked(view: View, actor: int, kind: str) -> Step | None:
    if any(step.actor == actor for step in view.parked.values()):
        view.is_over = True  # its session would begin to run at some later moment
        return None
    return Step(kind=kind)
