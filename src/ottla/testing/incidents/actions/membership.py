"""Members come, go and come back on purpose."""

import time

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.set_up import everyone, set_up
from ottla.testing.incidents.group_run import GroupRun


def cold_start(run: GroupRun) -> None:
    """The first members of a group start."""
    set_up(run, everyone(run), one_by_one=False)


def join(run: GroupRun) -> None:
    """The actor joins the others."""
    actor = run.plan.actor
    set_up(run, [each for each in everyone(run) if each != actor])
    with run.caused(Cause.JOIN_NEW):
        run.start(actor)
        run.wait_stable()
        run.quiet()


def close(run: GroupRun) -> None:
    """The actor closes."""
    set_up(run, everyone(run))
    with run.caused(Cause.LEAVE_CLOSE):
        run.members.pop(run.plan.actor).close()
        run.wait_stable()
        run.quiet()


def unsubscribe(run: GroupRun) -> None:
    """The actor unsubscribes and lives on."""
    set_up(run, everyone(run))
    with run.caused(Cause.LEAVE_CLOSE):
        run.members[run.plan.actor].do("unsubscribe")
        run.wait_stable(without=[run.plan.actor])
        run.quiet()


def restart(run: GroupRun) -> None:
    """The actor closes and starts again."""
    set_up(run, everyone(run))
    _restart(run, run.plan.actor, wait_between=run.random.random() < 0.5)
    run.quiet()


def rolling_restart(run: GroupRun) -> None:
    """Each member closes and starts again, one after the other."""
    set_up(run, everyone(run))
    for position in everyone(run):
        _restart(run, position, wait_between=False)
        run.quiet()


def _restart(run: GroupRun, position: int, *, wait_between: bool) -> None:
    with run.caused(Cause.RESTART_DYNAMIC):
        run.members.pop(position).close()
        if wait_between:
            run.wait_stable()
        time.sleep(run.random.uniform(0.2, 1.5))
        run.start(position)
        run.wait_stable()


def change_assignor_dynamic(run: GroupRun) -> None:
    """Dynamic members; the actor restarts with another assignor only."""
    run.defaults["assignors"] = ("range", "roundrobin")
    set_up(run, everyone(run))
    with run.caused(Cause.RESTART_DYNAMIC, is_action=False):
        run.members.pop(run.plan.actor).close()
        run.wait_stable()
        run.quiet()
    with run.caused(Cause.ASSIGNOR_CHANGE, also={Cause.RESTART_DYNAMIC}):
        run.start(run.plan.actor, assignors=("roundrobin",))
        run.wait_stable()
        run.quiet()


def remove_members(run: GroupRun) -> None:
    """An administrator removes all members, which come back by themselves."""
    set_up(run, everyone(run))
    with run.caused(Cause.ADMIN):
        run.world.remove_all_members(run.group, run.random.choice((None, None, "drain", "stuck since noon")))
        run.quiet(3, 4)
        run.wait_stable()


def migrate(run: GroupRun) -> None:
    """A member of the new protocol joins a classic group, and leaves it."""
    newcomer = len(run.plan.clients)
    set_up(run, everyone(run))
    with run.caused(Cause.MIGRATION):
        run.start(newcomer, protocol="consumer")
        run.wait_stable()
        run.quiet()
    with run.caused(Cause.MIGRATION):
        run.members.pop(newcomer).close()
        run.wait_stable()
        run.quiet()
