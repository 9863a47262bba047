"""Which steps of a script may be under way at once, each sent before the one before it is answered."""

from collections.abc import Iterable, Sequence

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.group_scripts.script_state import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OUTSIDER,
    SYNC_GROUP,
    ScriptState,
    Step,
)

OF_MEMBERS = frozenset((JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP))
"""Apache Kafka handles these in the order in which it has read them."""
OF_GROUPS = OF_MEMBERS | {OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_GROUPS}
"""All that one group's coordinator handles in one go. DeleteGroups takes it several; others are not its own."""


def may_overlap(state: ScriptState, steps: Sequence[Step], other: Step) -> bool:
    """Whether `other` may be sent before `steps` are answered: a request of another client, none of them setting a timer.

    A timer completes a group's first rebalance, so none begins: some of its members stay.
    """
    together = [*steps, other]
    clients = [step.client_id for step in together if step.client_id != OUTSIDER]
    leaving = sum(len(step.values["members"]) for step in together if step.api == LEAVE_GROUP)
    joins = any(step.api == JOIN_GROUP for step in together)
    return (
        all(step.api in OF_GROUPS and step.arms_ms is None and _reaches_coordinator(state, step) for step in together)
        and len(set(clients)) == len(clients)
        and not (joins and leaving >= len(state.description.members))
    )


def _reaches_coordinator(state: ScriptState, step: Step) -> bool:
    """Whether the coordinator answers: a broker answers for topics that do not exist, as soon as it reads of them."""
    return step.api != OFFSET_COMMIT or all(topic["name"] in state.topics for topic in step.values["topics"])


def may_overlap_on_reference(steps: Iterable[Step]) -> bool:
    """Whether Apache Kafka, too, gives the same responses however much of the steps before each one is done."""
    return all(step.api in OF_MEMBERS for step in steps)
