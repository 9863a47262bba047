"""Makes the stories of all groups in some evidence: judged, on one clock, in words; without names where a report is to be given away."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ottla.groups.events import EventMember
from ottla.history.group_history import history_of_group
from ottla.history.incidents import Incident, find_incidents
from ottla.history.patterns import find_deployments, sentences
from ottla.history.processes import Identity
from ottla.history.rounds.assembly import complete_by_group
from ottla.history.sources.clocks import ClockSkew, estimate_skews
from ottla.history.sources.evidence import Evidence, Kind, Source
from ottla.history.story.arrays import LagHistory
from ottla.history.story.rebalances import Phases, judged_rebalances
from ottla.history.story.story import DeploymentSpan, Story, StoryExtras, story
from ottla.history.verdicts.verdict import Verdict
from ottla.protocol.model import TopicPartition

Name = TypeVar("Name", str, str | None)
_LEADING: Final = (Source.GROUP_EVENTS, Source.OFFSETS_TOPIC, Source.ADMIN, Source.BROKER_LOG, Source.CLIENT_LOG)
"""Whose members and assignments are drawn: the first that has any."""
_WITH_MEMBERS: Final = (Kind.SYNC_COMPLETED, Kind.LOADED)


class Anonymiser:
    """Gives each name another, the same one each time: `group-1`, `client-2`, `host-1`. Texts as logged are left out."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, str]] = {}

    def name(self, kind: str, name: Name) -> Name:
        """The other name of a `kind`; None and "" stay."""
        if not name:
            return name
        known = self._names.setdefault(kind, {})
        return known.setdefault(name, f"{kind}-{len(known) + 1}")

    def evidence(self, evidence: Evidence) -> Evidence:
        """The same without names."""
        return replace(
            evidence,
            clock=self.name("clock", evidence.clock),
            group=self.name("group", evidence.group),
            reason=None,
            client_reason=None,
            member_id=self.name("member", evidence.member_id),
            instance_id=self.name("instance", evidence.instance_id),
            client_id=self.name("client", evidence.client_id),
            client_host=self.name("host", evidence.client_host),
            leader=self.name("member", evidence.leader),
            members=None if evidence.members is None else tuple(map(self._member, evidence.members)),
            topics=None if evidence.topics is None else frozenset(self.name("topic", topic) for topic in evidence.topics),
            commits={self._partition(partition): span for partition, span in evidence.commits.items()},
        )

    def verdict(self, verdict: Verdict) -> Verdict:
        """The same without names."""
        who = verdict.who
        if who is not None:
            who = Identity(
                self.name("member", who.member_id),
                self.name("instance", who.instance_id),
                self.name("client", who.client_id),
                self.name("host", who.client_host),
            )
        return replace(verdict, group=self.name("group", verdict.group), who=who, clock=self.name("clock", verdict.clock))

    def lag(self, lag: LagHistory) -> LagHistory:
        """The same without names."""
        return replace(lag, rows={self._partition(partition): row for partition, row in lag.rows.items()})

    def _member(self, member: EventMember) -> EventMember:
        return replace(
            member,
            member_id=self.name("member", member.member_id),
            instance_id=self.name("instance", member.instance_id),
            client_id=self.name("client", member.client_id),
            client_host=self.name("host", member.client_host),
            assignment={self.name("topic", topic): partitions for topic, partitions in member.assignment.items()},
        )

    def _partition(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self.name("topic", partition.topic), partition.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryOptions:
    """What of the evidence becomes a story. groups: only these. since_ms, until_ms: only rebalances that began in between."""

    groups: Sequence[str] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    is_anonymous: bool = False

    def wants(self, verdict: Verdict) -> bool:
        """Whether a rebalance began in the time that is asked for."""
        since_ms, until_ms = self.since_ms, self.until_ms
        return (since_ms is None or verdict.started_ms >= since_ms) and (until_ms is None or verdict.started_ms < until_ms)


EVERYTHING: Final = StoryOptions()


@dataclass(slots=True, kw_only=True)
class _Judged:
    """One group before its story is written.

    verdicts: as they are told everywhere; drawn: the same by the clock of the source whose members are drawn.
    """

    group: str
    evidence: Sequence[Evidence]
    verdicts: list[Verdict]
    drawn: list[Verdict]
    lag: LagHistory | None
    returned: Mapping[str, str]
    names: Mapping[str, str]
    leading: Sequence[Evidence]
    skews: Mapping[str, ClockSkew]


def stories(
    evidence: Iterable[Evidence], *, options: StoryOptions = EVERYTHING, lag: Mapping[str, LagHistory] | None = None
) -> list[Story]:
    """The story of each group by name."""
    found = complete_by_group(evidence)
    names = [group for group in sorted(found) if not options.groups or group in options.groups]
    judged = [_judged(group, found[group], options, (lag or {}).get(group)) for group in names]
    incidents = find_incidents(verdict for each in judged for verdict in each.verdicts)
    if options.is_anonymous:
        judged, incidents = _anonymous(judged, incidents)
    return [_story(each, [incident for incident in incidents if each.group in incident.groups], options) for each in judged]


def _judged(group: str, evidence: Sequence[Evidence], options: StoryOptions, lag: LagHistory | None) -> _Judged:
    history = history_of_group(group, evidence, lag=lag)
    leading = leading_evidence(evidence)
    skews = estimate_skews(evidence, reference=leading[0].clock) if leading else {}
    on_clock = sorted((_on_clock(verdict, skews) for verdict in history.verdicts), key=lambda verdict: verdict.started_ms)
    return _Judged(
        group=group,
        evidence=evidence,
        verdicts=[verdict for verdict in history.verdicts if options.wants(verdict)],
        drawn=[verdict for verdict in on_clock if options.wants(verdict)],
        lag=lag,
        returned=history.returned,
        names={member_id: member.name for member in history.members for _, member_id in member.ids},
        leading=leading,
        skews=skews,
    )


def _anonymous(judged: Sequence[_Judged], incidents: Sequence[Incident]) -> tuple[list[_Judged], list[Incident]]:
    """The same without names. Incidents are found by names, before."""
    anonymiser = Anonymiser()
    verdicts: dict[int, Verdict] = {}
    groups = []
    for each in judged:
        evidence = [anonymiser.evidence(item) for item in each.evidence]
        verdicts |= {id(verdict): anonymiser.verdict(verdict) for verdict in each.verdicts}
        leading = leading_evidence(evidence)
        groups.append(
            _Judged(
                group=anonymiser.name("group", each.group),
                evidence=evidence,
                verdicts=[verdicts[id(verdict)] for verdict in each.verdicts],
                drawn=[anonymiser.verdict(verdict) for verdict in each.drawn],
                lag=each.lag and anonymiser.lag(each.lag),
                returned={anonymiser.name("member", now): anonymiser.name("member", before) for now, before in each.returned.items()},
                names={},
                leading=leading,
                skews=estimate_skews(evidence, reference=leading[0].clock) if leading else {},
            )
        )
    return groups, [_anonymous_incident(incident, [verdicts[id(verdict)] for verdict in incident.verdicts]) for incident in incidents]


def _anonymous_incident(incident: Incident, verdicts: Sequence[Verdict]) -> Incident:
    names = [verdict.who.name for verdict in verdicts if verdict.who is not None and verdict.who.name is not None]
    return replace(
        incident,
        groups=tuple(dict.fromkeys(verdict.group for verdict in verdicts)),
        culprits=tuple(dict.fromkeys(names)) if incident.culprits else (),
        verdicts=tuple(verdicts),
    )


def _story(judged: _Judged, incidents: Sequence[Incident], options: StoryOptions) -> Story:
    extras = StoryExtras(
        lag=judged.lag,
        clocks=[str(skew) for skew in judged.skews.values()],
        findings=sentences(judged.drawn, time_text=_time_text)[1:],
        deployments=[
            DeploymentSpan(each.started_ms, each.ended_ms, len(each.clients), len(each.verdicts), each.stopped_partition_seconds)
            for each in find_deployments(judged.drawn)
        ],
        incidents=incidents,
        since_ms=options.since_ms,
        until_ms=options.until_ms,
        returned=judged.returned,
        names=judged.names,
    )
    phases = Phases(_evidence_on_clock(item, judged.skews) for item in judged.evidence)
    return story(judged.group, judged.leading, judged_rebalances(judged.drawn, phases), extras)


def _time_text(at_ms: int) -> str:
    """The time of day in UTC."""
    seconds = at_ms // 1000 % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def leading_evidence(evidence: Sequence[Evidence]) -> list[Evidence]:
    """What the first source says that lists members with their assignments, or else the first that says anything."""
    by_source: dict[Source, list[Evidence]] = {}
    for item in evidence:
        by_source.setdefault(item.source, []).append(item)
    present = [source for source in _LEADING if source in by_source]
    listing = [source for source in present if any(each.kind in _WITH_MEMBERS and each.members is not None for each in by_source[source])]
    return by_source[(listing or present)[0]] if present else []


def _on_clock(verdict: Verdict, skews: Mapping[str, ClockSkew]) -> Verdict:
    skew = skews.get(verdict.clock)
    if skew is None:
        return verdict
    ended_ms = None if verdict.ended_ms is None else skew.correct(verdict.ended_ms)
    return replace(verdict, started_ms=skew.correct(verdict.started_ms), ended_ms=ended_ms)


def _evidence_on_clock(evidence: Evidence, skews: Mapping[str, ClockSkew]) -> Evidence:
    skew = skews.get(evidence.clock)
    return evidence if skew is None else replace(evidence, at_ms=skew.correct(evidence.at_ms))
