"""All actions by their names."""

from collections.abc import Callable

from ottla.testing.incidents.actions import changes, losses, membership, static_members
from ottla.testing.incidents.group_run import GroupRun

Action = Callable[[GroupRun], None]

ACTIONS: dict[str, Action] = {
    action.__name__: action
    for action in (
        membership.cold_start,
        membership.join,
        membership.close,
        membership.unsubscribe,
        membership.restart,
        membership.rolling_restart,
        membership.change_assignor_dynamic,
        membership.remove_members,
        membership.migrate,
        losses.kill_and_restart,
        losses.freeze,
        losses.kill,
        losses.block_event_loop,
        losses.slow_poll,
        losses.slow_revocation,
        losses.never_sync,
        changes.add_partitions,
        changes.create_matching_topic,
        changes.delete_topic,
        changes.subscribe,
        changes.subscribe_again,
        changes.rejoin,
        changes.enforce,
        static_members.change_assignor_static,
        static_members.static_rejoin,
        static_members.static_fenced,
    )
}
OWN_JVM = frozenset({"freeze", "kill", "kill_and_restart"})
"""Actions whose actor must have a process of its own."""
