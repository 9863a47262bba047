"""Incidents in words: what `ottla diagnose`, its JSON and the report say of each, and what sets of them are called in one line.

for incident in find_incidents(verdicts):
    print(incident_sentence(incident, time_text=str))
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from ottla.history.incidents import Incident, IncidentKind
from ottla.history.story.sentences import counted, duration

NAMES_MAX: Final = 4
"""Groups or members that a sentence names."""
YES_NO: Final = {True: "yes", False: "no", None: "?"}
_PLANNED: Final = {True: "planned", False: "not planned", None: "planned or not: not known"}
TimeText = Callable[[int], str]


def urgency(incident: Incident) -> tuple[bool, float, int]:
    """The order in which incidents matter: those that were not planned first, and what costs more before what costs less."""
    return incident.planned is True, -(incident.stopped_partition_seconds or 0), -incident.rebalances


def groups_text(incident: Incident) -> str:
    """The groups in a cell of a table."""
    return _several(incident.groups, "groups")


def who_text(incident: Incident) -> str:
    """The culprits in a cell of a table."""
    return "broker" if incident.is_of_broker else _several(incident.culprits, "members") or "-"


def _several(names: Sequence[str], noun: str) -> str:
    return f"{len(names)} {noun}" if len(names) > 2 else ", ".join(names)


def setting_text(incident: Incident) -> str:
    """The one setting that would have avoided most of it, with its value; none: `none`."""
    advice = incident.advice
    if advice is None:
        return "none"
    has_number = advice.value is not None and advice.value.isdecimal()
    return f"{advice.setting}={advice.value}" if has_number else advice.setting


def incident_sentence(incident: Incident, *, time_text: TimeText) -> str:
    """What happened to whom, when, what it cost, and the setting that helps. `time_text` writes a time."""
    kind = incident.kind.value
    groups = _listed(incident.groups)
    text = f"{kind[0].upper()}{kind[1:]}: {f'{_listed(incident.culprits)} in {groups}' if incident.culprits else groups}"
    length_ms = incident.ended_ms - incident.started_ms
    text += f", {time_text(incident.started_ms)}{f' for {duration(length_ms)}' if length_ms else ''}; "
    text += counted(incident.rebalances, "rebalance")
    if incident.stopped_partition_seconds is not None:
        text += f", {incident.stopped_partition_seconds:,.1f} partition-seconds of standstill"
    text += f"; {_PLANNED[incident.planned]}, confidence {incident.confidence.name.lower()}."
    setting = setting_text(incident)
    return f"{text} No setting helps." if incident.advice is None else f"{text} Setting: {setting}."


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def incident_dict(incident: Incident, *, time_text: TimeText) -> dict[str, Any]:
    """JSON-ready values with the sentence (docs/diagnose.md)."""
    return incident.to_dict() | {"sentence": incident_sentence(incident, time_text=time_text)}


def named_by_kind(incidents: Iterable[Incident], *, time_text: TimeText) -> Iterator[tuple[str, list[str]]]:
    """Each incident in as few words as name it, those of one kind together: who, or in which group, after the time from which it is.

    Kinds of incidents that were not planned come first; those of one kind stay in their order. Who is named at a time that has been said
    has none of its own.
    """
    by_kind: dict[IncidentKind, list[Incident]] = {}
    for incident in sorted(incidents, key=lambda incident: incident.planned is True):
        by_kind.setdefault(incident.kind, []).append(incident)
    for kind, of_kind in by_kind.items():
        times = [time_text(incident.started_ms) for incident in of_kind]
        names = [f"{time} {_short_name(incident)}" for time, incident in zip(times, of_kind, strict=True)]
        is_said = [False, *(time == before for before, time in pairwise(times))]
        yield kind.value, [_short_name(incident) if said else name for incident, name, said in zip(of_kind, names, is_said, strict=True)]


def _short_name(incident: Incident) -> str:
    """The culprit if there is one, else the group; a member's name that begins with its group's says both."""
    groups = groups_text(incident)
    if len(incident.culprits) != 1:
        return groups
    (name,) = incident.culprits
    return name if len(incident.groups) > 1 or name.startswith(incident.groups[0]) else f"{name} ({groups})"


def utc_time_text(at_ms: int) -> str:
    """The time of day in UTC, to the minute."""
    minutes = at_ms // 60_000
    return f"{minutes // 60 % 24:02}:{minutes % 60:02}"


def utc_text(at_ms: int) -> str:
    """The date and the time in UTC; times beyond the calendar are numbers."""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


def incidents_headline(incidents: Sequence[Incident], *, time_text: TimeText, names_max: int) -> str:
    """How many there were, and the names of those that matter most; empty where there is none."""
    if not incidents:
        return ""
    shown = sorted(sorted(incidents, key=urgency)[:names_max], key=lambda incident: incident.started_ms)
    unplanned = sum(incident.planned is False for incident in incidents)
    names = "; ".join(f"{kind} {', '.join(entries)}" for kind, entries in named_by_kind(shown, time_text=time_text))
    more = f"; and {len(incidents) - len(shown)} more" if len(shown) < len(incidents) else ""
    return f"{counted(len(incidents), 'incident')}, {unplanned:,} not planned: {names}{more}."
