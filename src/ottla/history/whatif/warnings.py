"""Where a change of settings backfires, and what the evidence cannot say about it: sentences for the reader, each with its figures."""

from collections.abc import Iterator
from typing import Final

from ottla.history.advice import HEARTBEATS_PER_SESSION
from ottla.history.rounds.returns import RETURN_WITHIN_MS
from ottla.history.verdicts.cost import COOPERATIVE
from ottla.history.whatif.behaviour import ActionKind, GroupBehaviour, Process
from ottla.history.whatif.outcome import Outcome
from ottla.history.whatif.settings import CONSUMER, Settings

SESSION_MIN_MS: Final = 6_000
SESSION_MAX_MS: Final = 1_800_000
"""The defaults of the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms."""
CONSUMER_SESSION_MS: Final = (45_000, 60_000)
"""The same of consumer groups."""
ENDS: Final = (ActionKind.CLOSE, ActionKind.CRASH)


def warnings(behaviour: GroupBehaviour, settings: Settings, *, before: Outcome, after: Outcome, recorded: Settings) -> tuple[str, ...]:
    """What to know before changing these settings."""
    found = [*_waits_longer(before, after), *_static_ids(behaviour, settings), *_lower_limits(behaviour, settings)]
    found += [*_session(behaviour, settings, recorded), *_near_the_limit(behaviour, settings), *_assignor(behaviour, settings)]
    return tuple(found)


def _waits_longer(before: Outcome, after: Outcome) -> Iterator[str]:
    longer_ms = after.waiting_ms - before.waiting_ms
    if longer_ms > 0:
        yield (
            f"Partitions of silent or dead members wait longer: {_seconds(after.waiting_ms)} partition-seconds, "
            f"{_seconds(longer_ms)} more than before."
        )


def _static_ids(behaviour: GroupBehaviour, settings: Settings) -> Iterator[str]:
    if not settings.is_static:
        return
    dynamic = [process for process in behaviour.processes if process.instance_id is None and process.actions]
    ended = [process for process in dynamic if process.actions[-1].kind in ENDS]
    closed = [process for process in ended if process.actions[-1].kind is ActionKind.CLOSE]
    replaced = [process for process in ended if _is_replaced(process, behaviour)]
    if closed:
        yield (
            f"{len(closed)} {_members(len(closed))} closed for good. A static member sends no LeaveGroup when it closes: "
            "its partitions wait until its session ends, or until an administrator removes it."
        )
    if replaced:
        yield (
            f"{len(replaced)} of these {_members(len(replaced))} may have been replaced by a process of another name (rotating pod "
            "names): an instance id made of such a name never returns. Use ids that stay, as a StatefulSet's."
        )


def _is_replaced(process: Process, behaviour: GroupBehaviour) -> bool:
    ended_ms = process.actions[-1].at_ms
    return any(
        other.actions and 0 <= other.actions[0].at_ms - ended_ms <= RETURN_WITHIN_MS and other.name != process.name
        for other in behaviour.processes
    )


def _lower_limits(behaviour: GroupBehaviour, settings: Settings) -> Iterator[str]:
    sessions = [process.session_timeout_ms for process in behaviour.processes]
    polls = [process.rebalance_timeout_ms for process in behaviour.processes]
    for name, value, known in (
        ("session.timeout.ms", settings.session_timeout_ms, sessions),
        ("max.poll.interval.ms", settings.max_poll_interval_ms, polls),
    ):
        if value is not None and known and value < max(known):
            yield (
                f"{name}={value} is below the recorded {max(known)}: pauses shorter than that left no trace, "
                "so there may be more rebalances than shown."
            )


def _session(behaviour: GroupBehaviour, settings: Settings, recorded: Settings) -> Iterator[str]:
    heartbeat_ms = settings.heartbeat_interval_ms or recorded.heartbeat_interval_ms or 0
    sessions = [settings.session_timeout_ms] if settings.session_timeout_ms else [each.session_timeout_ms for each in behaviour.processes]
    if settings.session_timeout_ms is None and settings.heartbeat_interval_ms is None:
        return
    session_ms = min(sessions, default=0)
    if session_ms < HEARTBEATS_PER_SESSION * heartbeat_ms:
        yield f"A session of {session_ms} ms is shorter than {HEARTBEATS_PER_SESSION} heartbeats of {heartbeat_ms} ms."
    is_consumer_type = behaviour.is_consumer_type if settings.protocol is None else settings.protocol == CONSUMER
    least_ms, most_ms = CONSUMER_SESSION_MS if is_consumer_type else (SESSION_MIN_MS, SESSION_MAX_MS)
    kind = "group.consumer" if is_consumer_type else "group"
    if settings.session_timeout_ms is not None and not least_ms <= session_ms <= most_ms:
        yield (
            f"session.timeout.ms={session_ms} is refused by a broker with the default {kind}.min.session.timeout.ms ({least_ms}) "
            f"and {kind}.max.session.timeout.ms ({most_ms})."
        )


def _near_the_limit(behaviour: GroupBehaviour, settings: Settings) -> Iterator[str]:
    """Actions whose true length may lie on either side of a limit."""
    for process in behaviour.processes:
        for action in process.actions:
            limit_ms = settings.session_timeout_ms if action.kind is ActionKind.SILENCE else settings.max_poll_interval_ms
            is_either = action.until_ms is not None and limit_ms is not None
            if is_either and action.uncertain_ms and action.length_ms <= (limit_ms or 0) < action.length_ms + action.uncertain_ms:
                longest_ms = action.length_ms + action.uncertain_ms
                yield (
                    f"{process.name}: a {action.kind} of {_seconds(action.length_ms)} to {_seconds(longest_ms)} s: "
                    f"it may exceed {limit_ms} ms."
                )


def _assignor(behaviour: GroupBehaviour, settings: Settings) -> Iterator[str]:
    if settings.assignor in COOPERATIVE and behaviour.protocol not in COOPERATIVE:
        yield (
            f"From {behaviour.protocol} to {settings.assignor} takes two rolling restarts: first with both assignors, then with "
            "the new one alone."
        )


def _members(count: int) -> str:
    return "member" if count == 1 else "members"


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.1f}"
