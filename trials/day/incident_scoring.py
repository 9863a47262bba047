"""Compares the incidents that the first screen of `ottla diagnose` names with the ledger: each action is named once, nothing is made up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.history.incidents import KINDS, Incident, IncidentKind
from ottla.history.sources.evidence import Cause, name_in_member_id
from trials.day.accidents import ACCIDENT
from trials.day.ledger import Action, Day, Step

CLOCK_MS: Final = 200
"""The time of a line or a record and that of the ledger may differ by as much."""
NAMES: Final = {
    "rolling restart": (IncidentKind.ROLLING_RESTART, IncidentKind.INCOMPLETE_RESTART),
    "stop of a group": (IncidentKind.GROUP_RESTART, IncidentKind.GROUP_STOP),
    "crash loop": (IncidentKind.CRASH_LOOP,),
    "mass loss": (IncidentKind.MASS_LOSS,),
    "network": (IncidentKind.MASS_LOSS,),
    "broker outage": (IncidentKind.BROKER_OUTAGE, IncidentKind.COORDINATOR_MOVE),
    "reassignment storm": (IncidentKind.REASSIGNMENT_STORM, IncidentKind.RECONFIGURATION),
}
"""What an operator may call an incident of the ledger that is more than its causes; all others are called by the kinds of their causes."""
STOPPED: Final = (IncidentKind.GROUP_RESTART, IncidentKind.GROUP_STOP)
"""For what an administrator does to the offsets of a group, all of its members have to stop."""
OF_NEWCOMERS: Final = ("join_with_other_assignor",)
"""Kinds of actions whose culprit is a member that is new; ledgers of some days name one that was there before."""


@dataclass(frozen=True, slots=True)
class NamedIncident:
    """An action of the ledger, the incidents that are called by its name, and those that are of its time and groups."""

    action: Action
    named_by: Sequence[Incident]
    beside: Sequence[Incident]


@dataclass(frozen=True, slots=True)
class IncidentScore:
    """One set of sources. twice: how many names of actions are there again. made_up: incidents that nothing in the ledger explains."""

    told: Sequence[NamedIncident]
    twice: int
    made_up: Sequence[Incident]

    @property
    def named(self) -> int:
        """How many actions are named."""
        return sum(bool(each.named_by) for each in self.told)


def score_incidents(day: Day, incidents: Iterable[Incident]) -> IncidentScore:
    """How these incidents tell the day."""
    shown = [incident for incident in incidents if incident.started_ms <= day.to_ms]
    steps = {id(incident): _steps(day, incident) for incident in shown}
    told = []
    names: dict[int, list[Action]] = {}
    for action in day.actions:
        beside = [incident for incident in shown if any(other is action for other, _ in steps[id(incident)])]
        named_by = [incident for incident in beside if _is_name(incident, action, steps[id(incident)])]
        for incident in named_by:
            names.setdefault(id(incident), []).append(action)
        is_judged = action.incident != "none" and not action.failure and not _is_disturbed(day, action)
        if is_judged and _has_to_be_told(action, beside):
            told.append(NamedIncident(action, named_by, beside))
    alone = [[incident for incident in each.named_by if names[id(incident)] == [each.action]] for each in told]
    made_up = [incident for incident in shown if id(incident) not in names and not _is_explained(day, incident, steps[id(incident)])]
    return IncidentScore(told, sum(max(0, len(each) - 1) for each in alone), made_up)


def _steps(day: Day, incident: Incident) -> list[tuple[Action, Step]]:
    found = {}
    for verdict in incident.verdicts:
        for action, step in day.steps_at(verdict.group, verdict.started_ms - CLOCK_MS, verdict.started_ms + CLOCK_MS):
            found[id(step)] = action, step
    return list(found.values())


def _is_name(incident: Incident, action: Action, steps: Sequence[tuple[Action, Step]]) -> bool:
    """Whether the incident is called what an operator would call the action, and blames the right members, where it blames any.

    A member to which several of the `steps` of its time happen is a loop.
    """
    causes = {cause for step in action.steps for cause in step.causes}
    kinds = set(NAMES.get(action.incident, [KINDS[Cause(cause)] for cause in causes if cause in Cause.__members__]))
    if action.incident == "administrator" and Cause.LEAVE_CLOSE in causes:
        kinds |= set(STOPPED)
    if Cause.EXPIRE_HEARTBEAT in causes:
        kinds.add(IncidentKind.MASS_LOSS)  # where others were lost at the same time
    culprits = _culprits(action)
    of_member = {id(other) for other, _ in steps if not culprits.isdisjoint(_culprits(other))}
    if len(of_member) > 1 and not causes.isdisjoint((Cause.EXPIRE_HEARTBEAT, Cause.RESTART_DYNAMIC)):
        kinds.add(IncidentKind.CRASH_LOOP)
    is_blamed = not incident.culprits or not culprits or not culprits.isdisjoint(incident.culprits)
    return incident.kind in kinds and is_blamed


def _culprits(action: Action) -> set[str]:
    """The names of the members that may be blamed; none: any. What happened by accident is in the ledger by a member id."""
    if action.kind in OF_NEWCOMERS:
        return set()
    names = {name_in_member_id(name) for name in action.culprits} if action.kind == ACCIDENT else set(action.culprits)
    return {name for name in names if name is not None}


def _has_to_be_told(action: Action, beside: Sequence[Incident]) -> bool:
    """Whether something must have happened, or did."""
    causes = {cause for step in action.steps for cause in step.causes}
    is_required = any(step.is_required and step.causes for step in action.steps)
    return is_required or any(verdict.cause in causes for incident in beside for verdict in incident.verdicts)


def _is_disturbed(day: Day, action: Action) -> bool:
    return any(first_ms <= action.to_ms and action.from_ms <= last_ms for first_ms, last_ms in day.disturbed)


def _is_explained(day: Day, incident: Incident, steps: Sequence[tuple[Action, Step]]) -> bool:
    """Whether all of it may be what some action causes besides, or the ledger cannot say."""
    if any(action.failure or not step.causes or _is_disturbed(day, action) for action, step in steps):
        return True
    return bool(steps) and all(any(step.tolerates(verdict.cause) for _, step in steps) for verdict in incident.verdicts)


def incident_lines(day: Day, of_set: IncidentScore) -> Iterable[str]:
    """What is not named, and what is made up, as lines."""

    def at_s(at_ms: int) -> str:
        return f"{(at_ms - day.from_ms) / 1000:.0f} s"

    yield "first screen"
    for each in of_set.told:
        if not each.named_by:
            action = each.action
            beside = ", ".join(f"{at_s(one.started_ms)} {one.kind} of {'/'.join(one.culprits[:3])}" for one in each.beside)
            who = ", ".join(action.culprits[:3])
            yield f"  not named: {at_s(action.from_ms)} {action.kind} in {', '.join(action.groups())} ({who}); there are {beside or 'none'}"
    for one in of_set.made_up:
        yield f"  made up: {at_s(one.started_ms)} {one.kind} in {', '.join(one.groups)} ({', '.join(one.culprits[:3])})"
