"""The first screen of `ottla diagnose`: each incident once on the lines of a terminal (24 where there is none), as far as they reach.

What was not planned and what cost most has a line in the table; the others are named behind it, those of one kind together. Then come the
settings that would have avoided most rebalances.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from ottla.cli.text_tables import WIDTH, table, wrapped
from ottla.history.incidents import Incident
from ottla.history.story.incident_texts import YES_NO, groups_text, named_by_kind, urgency, who_text
from ottla.history.story.sentences import counted
from ottla.text import printable

LINES: Final = 24
LAYOUTS: Final = (
    *((rows, 3, True) for rows in range(16, 8, -1)),
    *((rows, 2, True) for rows in range(8, 5, -1)),
    *((rows, 1, False) for rows in range(8, 3, -1)),
    *((rows, 0, False) for rows in range(4, 1, -1)),
)
"""Rows of the table, settings, and whether each kind of the others has a line of its own; the best layout first."""
NAMED_MAX: Final = 150
"""More names do not fit on a screen of so many lines."""


@dataclass(frozen=True, slots=True)
class Screen:
    """lines: what is printed. shown: the incidents that a line has or names."""

    lines: list[str]
    shown: list[Incident]


def incident_table(incidents: Sequence[Incident], *, zone: tzinfo, width: int = WIDTH) -> list[str]:
    """The lines of the incidents, in their order. A cost that is not known is a dash."""
    titles = ["started", "incident", "group", "who", "rebalances", "part.-s", "planned", "sure"]
    times = [datetime.fromtimestamp(incident.started_ms / 1000, zone) for incident in incidents]
    return table(titles, times, [_cells(incident) for incident in incidents], width)


def _cells(incident: Incident) -> list[str]:
    seconds = incident.stopped_partition_seconds
    return [
        incident.kind.value,
        printable(groups_text(incident)),
        printable(who_text(incident)),
        str(incident.rebalances),
        "-" if seconds is None else f"{seconds:.1f}",
        YES_NO[incident.planned],
        incident.confidence.name.lower(),
    ]


def first_screen(incidents: Sequence[Incident], *, zone: tzinfo, width: int = WIDTH, height: int = LINES) -> Screen:
    """The incidents on one screen: as many of them in the table as leave room to name the others."""
    ordered = sorted(incidents, key=urgency)
    named_max = NAMED_MAX * height // LINES
    for rows, settings, has_lines in LAYOUTS:
        above = incident_table(_by_time(ordered[:rows]), zone=zone, width=width)
        below = [*_setting_lines(incidents, settings), *wrapped(_hint(incidents))]
        room = height - len(above) - len(below) - 1
        others = _by_time(ordered[rows : rows + named_max])
        names = _name_lines(others, zone=zone, width=width, has_lines=has_lines)
        if len(names) <= room and len(ordered) <= rows + named_max:
            return Screen([*above, *names, "", *below], ordered)
    for count in range(len(others), -1, -1):
        names = _name_lines(_by_time(ordered[rows : rows + count]), zone=zone, width=width, has_lines=False)
        if len(names) < room:
            break
    more = ordered[rows + count :]
    planned = sum(incident.planned is True for incident in more)
    names.append(f"and {len(more):,} more, {planned:,} of them planned")
    return Screen([*above, *names, "", *below], ordered[: rows + count])


def _by_time(incidents: Sequence[Incident]) -> list[Incident]:
    return sorted(incidents, key=lambda incident: incident.started_ms)


def _name_lines(incidents: Sequence[Incident], *, zone: tzinfo, width: int, has_lines: bool) -> list[str]:
    """The names of incidents, a kind after the other, or (`has_lines`) each kind in lines of its own."""
    days = {datetime.fromtimestamp(incident.started_ms / 1000, zone).date() for incident in incidents}
    form = "%H:%M" if len(days) < 2 else "%m-%d %H:%M"

    def time_text(at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, zone).strftime(form)

    words = [_words(kind, list(map(printable, names))) for kind, names in named_by_kind(incidents, time_text=time_text)]
    if not words:
        return []
    if has_lines:
        return [line for of_kind in words for line in _filled(of_kind, width)]
    for of_kind in words[:-1]:
        of_kind[-1] += ";"
    return list(_filled([word for of_kind in words for word in of_kind], width))


def _words(kind: str, names: Sequence[str]) -> list[str]:
    first, *others = [*(f"{name}," for name in names[:-1]), names[-1]]
    return [f"{kind}: {first}", *others]


def _filled(words: Sequence[str], width: int) -> Iterator[str]:
    """The words in lines, none of which breaks within one."""
    line = words[0]
    for word in words[1:]:
        if len(line) + 1 + len(word) > width:
            yield line
            line = " "
        line += f" {word}"
    yield line


def _setting_lines(incidents: Sequence[Incident], count: int) -> list[str]:
    """What the settings that help most incidents would have done."""
    helped: dict[str, list[Incident]] = {}
    for incident in incidents:
        if incident.advice is not None and incident.rebalances:
            helped.setdefault(incident.advice.setting, []).append(incident)
    most = sorted(helped.items(), key=lambda pair: -len(pair[1]))[:count]
    return [line for setting, of_setting in most for line in wrapped(printable(_setting_sentence(setting, of_setting)))]


def _setting_sentence(setting: str, incidents: Sequence[Incident]) -> str:
    """What one setting would have done, with the greatest value that an incident needs."""
    values = [int(each.advice.value) for each in incidents if each.advice and each.advice.value and each.advice.value.isdecimal()]
    members = list(dict.fromkeys(name for incident in incidents for name in incident.culprits))
    value = f" = {max(values)}" if values else ""
    of_members = f" for {members[0] if len(members) == 1 else counted(len(members), 'member')}" if members else ""
    return f"{setting}{value}{of_members} would have avoided {counted(sum(each.rebalances for each in incidents), 'rebalance')}."


def _hint(incidents: Sequence[Incident]) -> str:
    count = sum(len(incident.verdicts) for incident in incidents)
    return f"--rebalances prints each rebalance, its advice, and what was read; {count:,} in all."
