"""The beginning of an incident: the group's members start, all at once or one by one, and become stable."""

from collections.abc import Collection

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.group_run import GroupRun

NEW_TOPICS = frozenset({Cause.TOPIC_CHANGE, Cause.LEADER_REJOIN_SPURIOUS})
"""A leader that knew nothing of the topics when it joined may join again."""


def set_up(run: GroupRun, positions: Collection[int], *, alone: Collection[int] = (), one_by_one: bool | None = None) -> None:
    """Start members, all at once or one after the other, and wait until they are stable and some time has passed."""
    run.create_topics()
    waits = run.random.random() < 0.4 if one_by_one is None else one_by_one
    first, *others = positions
    also = {Cause.JOIN_NEW, *NEW_TOPICS} if others and not waits else NEW_TOPICS
    with run.caused(Cause.COLD_START, also=also, is_action=run.plan.action == "cold_start"):
        run.start(first, is_alone=first in alone)
        if not waits:
            for position in others:
                run.start(position, is_alone=position in alone)
        run.wait_stable()
    if waits:
        for position in others:
            with run.caused(Cause.JOIN_NEW, also={Cause.COLD_START, *NEW_TOPICS}, is_action=False):
                run.start(position, is_alone=position in alone)
                run.wait_stable()
    run.quiet()


def everyone(run: GroupRun) -> range:
    """All places of the plan."""
    return range(len(run.plan.clients))


def set_up_static(run: GroupRun) -> None:
    """Start all members at once, each with an instance id."""
    run.create_topics()
    with run.caused(Cause.COLD_START, also={Cause.JOIN_NEW, *NEW_TOPICS}, is_action=False):
        for position in everyone(run):
            run.start(position, instance_id=instance_id(run, position))
        run.wait_stable()
    run.quiet()


def instance_id(run: GroupRun, position: int) -> str:
    """The instance id of the member at this place."""
    return f"{run.group}-instance-{position + 1}"
