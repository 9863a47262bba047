"""Makes the story of one group from its evidence, its judged rebalances and its lag: the one document that pages draw.

docs/report.md describes the document. Nothing is left to decide for who draws it: sentences, advice and the order of members are here, and
what the top of a page says: how many rebalances were not planned, who caused them at what cost, and which belong together in time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from ottla.groups.events import EventMember
from ottla.history.incidents import Incident
from ottla.history.processes import Process, Processes, distinct_names, of_evidence
from ottla.history.sources.evidence import Evidence, Kind
from ottla.history.story.arrays import NOTHING, AssignmentChange, LagHistory, OwnerArrays, encode_lag, owner_arrays, pack, plain
from ottla.history.story.incident_texts import incident_dict, incidents_headline, utc_text, utc_time_text
from ottla.history.story.rebalances import StoryRebalance, rebalance_columns
from ottla.history.story.sentences import advice_text, counted, duration
from ottla.history.verdicts.verdict import SettingAdvice

_ADVICE_MAX: Final = 20
JOINS: Final = frozenset({"JOIN_NEW", "COLD_START"})
GONE: Final = frozenset({"LEAVE_CLOSE", "POLL_TIMEOUT", "EXPIRE_HEARTBEAT", "JOIN_TIMEOUT", "SYNC_TIMEOUT", "ADMIN"})
"""What a trigger may mean: a restart is both, and shows by its other candidates which half it is."""
EXPIRED: Final = "EXPIRE_HEARTBEAT"
AGE: Final = "last_heartbeat_age_ms"


@dataclass(slots=True)
class Blame:
    """What one process set off without a plan: rebalances, and the partition-seconds that stopped in them. row None: not known who."""

    row: int | None
    name: str
    rebalances: int = 0
    stopped_seconds: float = 0.0
    advice: dict[str, SettingAdvice] = field(default_factory=dict)


def blames(rebalances: Sequence[StoryRebalance], rows: Sequence[int | None], names: Sequence[str]) -> list[Blame]:
    """Who caused unplanned rebalances, the most expensive first. `rows`: the process of each rebalance's member."""
    found: dict[int | str | None, Blame] = {}
    for rebalance, row in zip(rebalances, rows, strict=True):
        if rebalance.planned is not False or rebalance.is_avoided:
            continue
        name = names[row] if row is not None else rebalance.member.label if rebalance.member else "an unknown member"
        blame = found.setdefault(name if row is None else row, Blame(row, name))
        blame.rebalances += 1
        blame.stopped_seconds += rebalance.stopped_seconds
        for advice in rebalance.advice:
            blame.advice[advice.setting] = greater(advice, blame.advice.get(advice.setting))
    return sorted(found.values(), key=lambda value: (-value.stopped_seconds, -value.rebalances, value.name))


def headline(rebalances: Sequence[StoryRebalance], ledger: Sequence[Blame]) -> str:
    """The sentence at the top."""
    happened = [rebalance for rebalance in rebalances if not rebalance.is_avoided]
    refused = sum(rebalance.is_refused for rebalance in rebalances)
    avoided = len(rebalances) - len(happened) - refused
    if not happened:
        return _with_others("The evidence holds no rebalance of this group.", avoided, refused)
    unplanned = sum(each.planned is False for each in happened)
    if not unplanned:
        unknown = sum(each.planned is None for each in happened)
        judged = "none of them is known to be unplanned" if unknown else "all of them planned"
        return _with_others(f"{counted(len(happened), 'rebalance')}, {judged}.", avoided, refused)
    text = f"{unplanned:,} of {counted(len(happened), 'rebalance')} {'was' if unplanned == 1 else 'were'} not planned"
    worst = ledger[0]
    text += f"; {worst.name} caused {worst.rebalances:,} of them" if unplanned > 1 else f"; {worst.name} caused it"
    if worst.stopped_seconds >= 1:
        text += f" and stopped {worst.stopped_seconds:,.0f} partition-seconds"
    return _with_others(f"{text}.", avoided, refused)


class AdviceSum(NamedTuple):
    """One setting: the greatest value that any rebalance asked for, how many it would have avoided, and their partition-seconds."""

    advice: SettingAdvice
    rebalances: int
    stopped_seconds: float


def advice_of(rebalances: Sequence[StoryRebalance]) -> list[AdviceSum]:
    """Each setting that would have avoided rebalances, the most useful first."""
    found: dict[str, AdviceSum] = {}
    for rebalance in rebalances:
        for advice in rebalance.advice:
            before = found.get(advice.setting, AdviceSum(advice, 0, 0.0))
            seconds = before.stopped_seconds + rebalance.stopped_seconds
            found[advice.setting] = AdviceSum(greater(advice, before.advice), before.rebalances + 1, seconds)
    ordered = sorted(found.values(), key=lambda value: (-value.stopped_seconds, -value.rebalances, value.advice.setting))
    return ordered[:_ADVICE_MAX]


def greater(advice: SettingAdvice, other: SettingAdvice | None) -> SettingAdvice:
    """The advice with the greater value, if both are numbers; a value is better than none."""
    if other is None or other.value is None:
        return advice
    if advice.value is None or not (advice.value.isdecimal() and other.value.isdecimal()):
        return other
    return max(other, advice, key=lambda each: int(each.value or 0))


def _with_others(text: str, avoided: int, refused: int) -> str:
    """With what did not happen, and why."""
    text += f" Static membership avoided {counted(avoided, 'rebalance')}." if avoided else ""
    return f"{text} {counted(refused, 'join')} {'was' if refused == 1 else 'were'} refused." if refused else text


GAP_MS: Final = 120_000
"""A rebalance that begins later than this after the end of the one before it begins another burst."""
REBALANCES_MIN: Final = 3


class DeploymentSpan(NamedTuple):
    """A rolling deployment: how many clients and rebalances, and the partition-seconds that stopped, where known."""

    from_ms: int
    to_ms: int
    clients: int
    rebalances: int
    stopped_seconds: float | None


@dataclass(frozen=True, slots=True)
class Burst:
    """Rebalances of the story that follow each other closely, or a deployment."""

    from_ms: int
    to_ms: int
    unplanned: int
    is_deployment: bool
    sentence: str


def bursts(rebalances: Sequence[StoryRebalance], deployments: Sequence[DeploymentSpan] = ()) -> list[Burst]:
    """The deployments, and the bursts among rebalances in the order in which they began.

    A burst that holds every rebalance, or none that is outside of deployments, says nothing new.
    """
    found, first = [_deployment(each) for each in deployments], 0
    for at in range(1, len(rebalances) + 1):
        if at == len(rebalances) or rebalances[at].started_ms - rebalances[at - 1].ended_ms > GAP_MS:
            cluster = rebalances[first:at]
            if REBALANCES_MIN <= len(cluster) < len(rebalances) and not _is_covered(cluster, deployments):
                found.append(_burst(cluster))
            first = at
    return sorted(found, key=lambda each: each.from_ms)


def _is_covered(cluster: Sequence[StoryRebalance], deployments: Sequence[DeploymentSpan]) -> bool:
    return any(each.from_ms <= cluster[0].started_ms and cluster[-1].started_ms <= each.to_ms for each in deployments)


def _burst(rebalances: Sequence[StoryRebalance]) -> Burst:
    from_ms, to_ms = rebalances[0].started_ms, max(rebalance.ended_ms for rebalance in rebalances)
    unplanned = sum(rebalance.planned is False and not rebalance.is_avoided for rebalance in rebalances)
    happened = sum(not rebalance.is_avoided for rebalance in rebalances)
    text = f"A burst: {counted(happened, 'rebalance')} in {duration(to_ms - from_ms)}"
    if unplanned:
        text += f", {unplanned} of them not planned"
    return Burst(from_ms, to_ms, unplanned, False, f"{text}{_cost(sum(rebalance.stopped_seconds for rebalance in rebalances))}.")


def _deployment(span: DeploymentSpan) -> Burst:
    text = f"A rolling deployment of {counted(span.clients, 'client')}: {counted(span.rebalances, 'rebalance')}"
    text += f" in {duration(span.to_ms - span.from_ms)}{_cost(span.stopped_seconds)}."
    return Burst(span.from_ms, span.to_ms, 0, True, text)


def _cost(seconds: float | None) -> str:
    return f", {seconds:,.0f} partition-seconds stopped" if seconds else ""


class Presence:
    """Follows the members of one group through its evidence.

    `lists_members`: the evidence has lists of all members. Without them, members are known by the lines about each of them.
    """

    def __init__(self, processes: Processes, *, lists_members: bool = True) -> None:
        self._lists_members = lists_members
        self.silent: list[tuple[int, int, int]] = []
        """Row, from, to in milliseconds: a process that was still a member and sent nothing."""
        self._processes = processes
        self._last_rows: Sequence[int] | None = None
        self._here: dict[int, int] = {}
        self._asked_ms: dict[str, int] = {}

    def note(self, evidence: Evidence) -> None:
        """One line of evidence about one member: it joins or is gone."""
        codes = {evidence.trigger, *evidence.candidates} if evidence.kind is Kind.TRIGGER else set()
        if evidence.kind is Kind.MEMBER_JOINED or codes & JOINS:
            if evidence.member_id is not None:
                self._asked_ms.setdefault(evidence.member_id, evidence.at_ms)
                self._appear(evidence)
        elif evidence.kind in (Kind.MEMBER_LEFT, Kind.MEMBER_REMOVED) or codes & GONE:
            name = of_evidence(evidence)
            row = self._processes.find(name)
            if row is not None and row in self._here:
                self._leave(row, evidence.at_ms)
                self._last_rows = None
                if evidence.trigger == EXPIRED:
                    self._note_silence(row, evidence)

    def _appear(self, evidence: Evidence) -> None:
        if not self._lists_members:
            name = of_evidence(evidence)
            self._here.setdefault(self._processes.row_of(name, self._here, evidence.at_ms), evidence.at_ms)

    def set_members(self, rows: Sequence[int], ids: Iterable[str], at_ms: int) -> None:
        """All members of a generation, by row and member id."""
        if rows is self._last_rows:
            return
        self._last_rows = rows
        joined = dict(zip(rows, ids, strict=True))
        for row in [row for row in self._here if row not in joined]:
            self._leave(row, at_ms)
        for row, member_id in joined.items():
            if row not in self._here:
                self._here[row] = min(at_ms, self._asked_ms.pop(member_id, at_ms))

    def end(self) -> None:
        """The evidence ends: who is here stays."""
        for row, from_ms in self._here.items():
            self._processes.rows[row].present.append((from_ms, None))

    def _leave(self, row: int, at_ms: int) -> None:
        self._processes.rows[row].present.append((self._here.pop(row), at_ms))

    def _note_silence(self, row: int, evidence: Evidence) -> None:
        age_ms = _age(evidence.evidence)
        if age_ms is not None:
            self.silent.append((row, evidence.at_ms - age_ms, evidence.at_ms))


def _age(figures: Mapping[str, int]) -> int | None:
    age = figures.get(AGE)
    return age if age is not None and age > 0 else None


VERSION: Final = 1
HEADLINE_NAMES: Final = 6
"""Incidents that the headline of a group names."""
ASSIGNMENTS: Final = (Kind.SYNC_COMPLETED, Kind.LOADED, Kind.EMPTIED, Kind.DELETED)
EMPTY: Final = (Kind.EMPTIED, Kind.DELETED)
_MARGIN_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Story:
    """The document of one group: JSON values and typed arrays."""

    group: str
    document: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The document with its arrays as lists."""
        values: dict[str, Any] = plain(self.document)
        return values

    def to_bytes(self) -> bytes:
        """The document as one container (`arrays.pack`)."""
        return pack(self.document)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryExtras:
    """What a story may hold beside members and rebalances.

    clocks: how far those of several sources are apart, findings: what matters most, both as sentences. incidents: those that the group has
    a part in, and in the headline their names. since_ms, until_ms: what is shown.
    returned: as `GroupHistory` has it. names: by member id, the names of its members.
    """

    lag: LagHistory | None = None
    clocks: Sequence[str] = ()
    findings: Sequence[str] = ()
    deployments: Sequence[DeploymentSpan] = ()
    incidents: Sequence[Incident] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    returned: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


NO_EXTRAS: Final = StoryExtras()


def story(group: str, evidence: Sequence[Evidence], rebalances: Sequence[StoryRebalance], extras: StoryExtras = NO_EXTRAS) -> Story:
    """The story of `group`. `evidence`: of one source and of this group, in the order in which it happened: members and assignments.

    `rebalances`: in the order in which they began.
    """
    read = _read(evidence, extras.returned)
    processes = read.processes.rows
    owners = owner_arrays(read.changes, rows=len(processes))
    rows = [None if rebalance.member is None else read.processes.find(rebalance.member) for rebalance in rebalances]
    names = distinct_names([_name(process, extras.names) for process in processes])
    ledger = blames(rebalances, rows, names)
    from_ms, to_ms = _range(read, rebalances, extras)
    return Story(
        group,
        {
            "story": VERSION,
            "group": group,
            "from_ms": from_ms,
            "to_ms": to_ms,
            "state": _state(read),
            "facts": _facts(read, rebalances, owners),
            "headline": " ".join(filter(None, [_incident_names(extras.incidents), headline(rebalances, ledger)])),
            "incidents": [incident_dict(incident, time_text=utc_text) for incident in extras.incidents],
            "sources": sorted(read.sources),
            "clocks": list(extras.clocks),
            "findings": list(extras.findings),
            "topics": [[topic, partitions] for topic, partitions in owners.topics],
            "members": [_member(process, name) for process, name in zip(processes, names, strict=True)],
            "order": _order(processes, [blame.row for blame in ledger]),
            "ledger": [
                [each.row, each.name, each.rebalances, round(each.stopped_seconds, 1), _short_advice(each.advice.values())]
                for each in ledger
            ],
            "advice": [[advice_text(total.advice), total.rebalances, round(total.stopped_seconds, 1)] for total in advice_of(rebalances)],
            "rebalances": rebalance_columns(rebalances, rows, owners),
            "bursts": [asdict(burst) for burst in bursts(rebalances, extras.deployments)],
            "silent": _silent(read.presence.silent, rebalances, rows),
            "assignments": {name: value for name, value in owners._asdict().items() if name != "topics"},
            "lag": None if extras.lag is None else encode_lag(extras.lag, owners.topics),
        },
    )


def _incident_names(incidents: Sequence[Incident]) -> str:
    return incidents_headline(incidents, time_text=utc_time_text, names_max=HEADLINE_NAMES)


class _Reading:
    """What was read from the evidence of one group so far."""

    def __init__(self, returned: Mapping[str, str], *, lists_members: bool) -> None:
        self.processes = Processes(returned)
        self.presence = Presence(self.processes, lists_members=lists_members)
        self.changes: list[AssignmentChange] = []
        self.sources: set[str] = set()
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self.protocol: str | None = None
        self.last: Evidence | None = None
        self.owned: dict[int, Any] = {}

    def note(self, evidence: Evidence) -> None:
        """Take in the next line of evidence."""
        self.first_ms = evidence.at_ms if self.first_ms is None else min(self.first_ms, evidence.at_ms)
        self.last_ms = evidence.at_ms if self.last_ms is None else max(self.last_ms, evidence.at_ms)
        self.sources.add(str(evidence.source))
        members = () if evidence.kind in EMPTY else evidence.members
        if evidence.kind is not Kind.JOIN_COMPLETED and evidence.kind not in ASSIGNMENTS:
            self.presence.note(evidence)
        elif members is not None:
            self._set_members(evidence, members)

    def _set_members(self, evidence: Evidence, members: Sequence[EventMember]) -> None:
        self.last = evidence
        self.protocol = evidence.protocol or self.protocol
        rows = self.processes.rows_of(members, evidence.at_ms)
        self.presence.set_members(rows, [member.member_id for member in members], evidence.at_ms)
        if evidence.kind in ASSIGNMENTS:
            now = {row: member.assignment for row, member in zip(rows, members, strict=True)}
            gone = [(row, before, NOTHING) for row, before in self.owned.items() if row not in now and before]
            new = [(row, self.owned.get(row, NOTHING), after) for row, after in now.items()]
            self.changes.append(AssignmentChange(evidence.at_ms, evidence.generation, gone + [each for each in new if each[1] != each[2]]))
            self.owned = now


def _read(evidence: Sequence[Evidence], returned: Mapping[str, str]) -> _Reading:
    lists_members = any(item.members is not None and item.kind in (Kind.JOIN_COMPLETED, *ASSIGNMENTS) for item in evidence)
    reading = _Reading(returned, lists_members=lists_members)
    for item in evidence:
        reading.note(item)
    reading.presence.end()
    return reading


def _name(process: Process, names: Mapping[str, str]) -> str:
    return next((names[member_id] for _, member_id in process.ids if member_id in names), process.name)


def _member(process: Process, name: str) -> dict[str, Any]:
    member = process.member
    return {
        "name": name,
        "client_id": member.client_id,
        "host": member.client_host,
        "instance_id": member.instance_id,
        "ids": [list(each) for each in process.ids],
        "present": process.present,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


def _order(processes: Sequence[Process], blamed: Iterable[int | None]) -> list[int]:
    """All rows: those that caused unplanned rebalances first, then by name."""
    first = [row for row in blamed if row is not None]
    known = set(first)
    rest = sorted((row for row in range(len(processes)) if row not in known), key=lambda row: (processes[row].name, row))
    return first + rest


def _short_advice(advice: Iterable[SettingAdvice]) -> str:
    """What to set, without the reasons."""
    return "; ".join(f"{each.setting} = {each.value}" for each in advice if each.value is not None)


def _silent(seen: Sequence[tuple[int, int, int]], rebalances: Sequence[StoryRebalance], rows: Sequence[int | None]) -> list[list[int]]:
    """The silences that the leading source shows, and those that only verdicts know of."""
    found = {(row, to_ms): [row, from_ms, to_ms] for row, from_ms, to_ms in seen}
    for rebalance, row in zip(rebalances, rows, strict=True):
        if row is not None and rebalance.silent_ms is not None:
            found.setdefault((row, rebalance.started_ms), [row, rebalance.started_ms - rebalance.silent_ms, rebalance.started_ms])
    return sorted(found.values())


def _state(read: _Reading) -> str:
    if read.last is None:
        return "Unknown"
    if read.last.kind in EMPTY:
        return "Empty" if read.last.kind is Kind.EMPTIED else "Deleted"
    generation = "" if read.last.generation is None else f", generation {read.last.generation}"
    return f"{'Rebalancing' if read.last.kind is Kind.JOIN_COMPLETED else 'Stable'}{generation}"


def _facts(read: _Reading, rebalances: Sequence[StoryRebalance], owners: OwnerArrays) -> str:
    parts = [
        counted(len(read.processes.rows), "member"),
        counted(sum(len(partitions) for _, partitions in owners.topics), "partition"),
        counted(sum(not rebalance.is_avoided for rebalance in rebalances), "rebalance"),
    ]
    return " \N{MIDDLE DOT} ".join(parts + ([read.protocol] if read.protocol else []))


def _range(read: _Reading, rebalances: Sequence[StoryRebalance], extras: StoryExtras) -> tuple[int, int]:
    """What is drawn: rebalances and members with a margin, or what was asked for; not a time in which the group had no members."""
    spans = [span for process in read.processes.rows for span in process.present]
    times = [ms for span in spans for ms in (span[0], read.last_ms if span[1] is None else span[1])]
    times += [ms for rebalance in rebalances for ms in (rebalance.started_ms, rebalance.ended_ms)]
    known = [each for each in times if each is not None]
    first_ms, last_ms = min(known, default=0), max(known, default=0)
    margin_ms = max(_MARGIN_MS, (last_ms - first_ms) // 50)
    from_ms = first_ms - margin_ms if extras.since_ms is None else max(first_ms - margin_ms, extras.since_ms)
    to_ms = last_ms + margin_ms if extras.until_ms is None else min(last_ms + margin_ms, extras.until_ms)
    return from_ms, max(to_ms, from_ms + _MARGIN_MS)
