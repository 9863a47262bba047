"""Static members restart, with another assignor or without, or have a second process of their instance id."""

import time

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.set_up import instance_id, set_up_static
from ottla.testing.incidents.group_run import GroupRun
from ottla.testing.incidents.labels import AVOIDED


def change_assignor_static(run: GroupRun) -> None:
    """Static members; the actor restarts with another assignor first."""
    run.defaults |= {"session_ms": 10_000, "assignors": ("range", "roundrobin")}
    set_up_static(run)
    with run.caused(Cause.ASSIGNOR_CHANGE):
        run.members.pop(run.plan.actor).close()
        run.start(run.plan.actor, assignors=("roundrobin",), instance_id=instance_id(run, run.plan.actor))
        run.wait_stable()
        run.quiet()


def static_rejoin(run: GroupRun) -> None:
    """A static member restarts within its session timeout."""
    run.defaults["session_ms"] = 12_000
    set_up_static(run)
    actor = run.plan.actor
    with run.caused(Cause.STATIC_REJOIN, kind=AVOIDED):
        handle = run.members.pop(actor)
        handle.kill() if run.plan.actor_client != "java" and run.random.random() < 0.4 else handle.close()
        time.sleep(run.random.uniform(0.2, 1.5))
        run.start(actor, instance_id=instance_id(run, actor))
        run.wait_stable()
        run.quiet()


def static_fenced(run: GroupRun) -> None:
    """A second process uses the instance id of the actor, which lives on."""
    run.defaults["session_ms"] = 12_000
    set_up_static(run)
    second = len(run.plan.clients)
    with run.caused(Cause.STATIC_FENCED, kind=AVOIDED):
        run.start(second, instance_id=instance_id(run, run.plan.actor), client=run.plan.actor_client)
        run.quiet(5, 6)
