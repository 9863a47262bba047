"""Makes the stories of all groups in some evidence: judged, on one clock, in words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.history.group_history import history_of_group
from ottla.history.patterns import find_deployments, sentences
from ottla.history.rounds.assembly import by_group
from ottla.history.sources.clock_skew import ClockSkew, estimate_skews
from ottla.history.sources.departed_members import complete_departures
from ottla.history.sources.model import Evidence, Kind, Source
from ottla.history.story.anonymity import Anonymiser
from ottla.history.story.lag import LagHistory
from ottla.history.story.rebalances import Phases, judged_rebalances
from ottla.history.story.story import Story, StoryExtras, story
from ottla.history.story.summary import DeploymentSpan
from ottla.history.verdicts.verdict import Verdict

_LEADING: Final = (Source.GROUP_EVENTS, Source.OFFSETS_TOPIC, Source.ADMIN, Source.BROKER_LOG, Source.CLIENT_LOG)
"""Whose members and assignments are drawn: the first that has any."""
_WITH_MEMBERS: Final = (Kind.SYNC_COMPLETED, Kind.LOADED)


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


def stories(
    evidence: Iterable[Evidence], *, options: StoryOptions = EVERYTHING, lag: Mapping[str, LagHistory] | None = None
) -> list[Story]:
    """The story of each group by name."""
    found = by_group(complete_departures(list(evidence)))
    names = [group for group in sorted(found) if not options.groups or group in options.groups]
    anonymiser = Anonymiser() if options.is_anonymous else None
    return [_story_of_group(group, found[group], options, (lag or {}).get(group), anonymiser) for group in names]


def _story_of_group(
    group: str, evidence: Sequence[Evidence], options: StoryOptions, lag: LagHistory | None, anonymiser: Anonymiser | None
) -> Story:
    """The story of one group. Times are those of the clock of the source whose members are drawn."""
    history = history_of_group(group, evidence, lag=lag)
    verdicts, returned = history.verdicts, history.returned
    names = {member_id: member.name for member in history.members for _, member_id in member.ids}
    if anonymiser is not None:
        names = {}
        evidence, verdicts = [anonymiser.evidence(each) for each in evidence], [anonymiser.verdict(each) for each in verdicts]
        returned = {anonymiser.name("member", now): anonymiser.name("member", before) for now, before in returned.items()}
        group, lag = anonymiser.name("group", group), lag and anonymiser.lag(lag)
    leading = leading_evidence(evidence)
    skews = estimate_skews(evidence, reference=leading[0].clock) if leading else {}
    on_clock = sorted((_on_clock(verdict, skews) for verdict in verdicts), key=lambda verdict: verdict.started_ms)
    wanted = [verdict for verdict in on_clock if options.wants(verdict)]
    phases = Phases(_evidence_on_clock(each, skews) for each in evidence)
    extras = StoryExtras(
        lag=lag,
        clocks=[str(skew) for skew in skews.values()],
        findings=sentences(wanted, time_text=_time_text)[1:],
        deployments=[
            DeploymentSpan(each.started_ms, each.ended_ms, len(each.clients), len(each.verdicts), each.stopped_partition_seconds)
            for each in find_deployments(wanted)
        ],
        since_ms=options.since_ms,
        until_ms=options.until_ms,
        returned=returned,
        names=names,
    )
    return story(group, leading, judged_rebalances(wanted, phases), extras)


def _time_text(at_ms: int) -> str:
    """The time of day in UTC."""
    seconds = at_ms // 1000 % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def leading_evidence(evidence: Sequence[Evidence]) -> list[Evidence]:
    """What the first source says that lists members with their assignments, or else the first that says anything."""
    by_source: dict[Source, list[Evidence]] = {}
    for each in evidence:
        by_source.setdefault(each.source, []).append(each)
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
