"""Compares what `ottla diagnose` says of a day with its ledger: which incidents are told right, how right each confidence is, and which
incidents are on the first screen."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.cli.diagnose import SourceOptions, read_sources
from ottla.cli.incident_screen import LINES, first_screen
from ottla.cli.text_tables import WIDTH
from ottla.history.incidents import Incident, find_incidents
from ottla.history.sources.evidence import Cause, Evidence, Source
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import AVOIDED
from ottla.history.verdicts.verdict import Verdict as VerdictOfRebalance
from trials.day.incident_scoring import IncidentScore, incident_lines, score_incidents
from trials.day.ledger import Action, Day, Step
from trials.day.recording import ARCHIVE, BROKER_LOG, CLIENTS

OUTAGE: Final = "broker outage"
RIGHT, HELD, WRONG, MISSED = "right", "held", "wrong", "missed"
OUTCOMES: Final = (RIGHT, HELD, MISSED, WRONG)
"""From the best to the worst: of a step with several verdicts, and of an incident with several steps, the worst counts."""
CLOCK_MS: Final = 200
"""The time of a line or a record and that of the ledger may differ by as much."""
SETS: Final[Mapping[str, tuple[str, ...]]] = {
    "broker log": (BROKER_LOG,),
    "client logs": (CLIENTS,),
    "archive": (ARCHIVE,),
    "broker log + client logs": (BROKER_LOG, CLIENTS),
    "all": (BROKER_LOG, CLIENTS, ARCHIVE),
}

Verdict = Mapping[str, Any]
"""One line of `ottla diagnose --json --rebalances`."""


class Told(NamedTuple):
    """What the command says of a day: verdicts, and the incidents that its first screen names."""

    verdicts: Sequence[Verdict]
    on_screen: Sequence[Incident]


KINDS_OF_SOURCES: Final[Mapping[str, Container[Source]]] = {
    BROKER_LOG: (Source.BROKER_LOG,),
    CLIENTS: (Source.CLIENT_LOG,),
    ARCHIVE: (Source.GROUP_EVENTS, Source.OFFSETS_TOPIC, Source.ADMIN),
}


def kind_of_source(item: Evidence) -> str:
    """Where evidence of a day is from, as sets of sources call it."""
    return next(name for name, sources in KINDS_OF_SOURCES.items() if item.source in sources)


def is_of(item: Evidence, names: Container[str]) -> bool:
    """Whether evidence is of these sources."""
    return kind_of_source(item) in names


def read_evidence(sources: Path) -> Sequence[Evidence]:
    """All evidence of a day."""
    options = SourceOptions(
        broker_logs=[str(sources / BROKER_LOG)], client_logs=[str(sources / CLIENTS / "*.log")], archives=[str(sources / ARCHIVE)]
    )
    return read_sources(options, zone=UTC).evidence


def judge_evidence(evidence: Iterable[Evidence]) -> list[VerdictOfRebalance]:
    """The verdicts of all groups."""
    return [verdict for _, of_group in sorted(judge(evidence).items()) for verdict in of_group]


def diagnose(evidence: Iterable[Evidence]) -> Told:
    """What the command says with this evidence."""
    verdicts = judge_evidence(evidence)
    incidents = find_incidents(verdicts)
    screen = first_screen(incidents, zone=UTC)
    assert len(screen.lines) <= LINES, "the first screen is one screen"
    assert max(map(len, screen.lines), default=0) <= WIDTH
    return Told([verdict.to_dict() for verdict in verdicts], screen.shown)


class Judged(NamedTuple):
    """A verdict beside the steps of its time; `outcome` is None where the ledger cannot say: it is of a failed action, or of no step."""

    verdict: Verdict
    steps: Sequence[tuple[Action, Step]]
    outcome: str | None


@dataclass(frozen=True, slots=True)
class ToldIncident:
    """An action in all its groups, how it is told, and by which verdicts."""

    action: Action
    outcome: str
    verdicts: Sequence[Verdict]

    @property
    def key(self) -> tuple[str, int]:
        """What names it, whatever the sources."""
        return self.action.kind, self.action.from_ms


@dataclass(frozen=True, slots=True)
class Score:
    """One set of sources. twice: rebalances that are listed more than once. unexplained: verdicts at times when nothing was done.

    screen: how the first screen tells the day.
    """

    incidents: Sequence[ToldIncident]
    judged: Sequence[Judged]
    twice: int
    screen: IncidentScore

    @property
    def unexplained(self) -> int:
        """How many verdicts are of times when nothing was done."""
        return sum(not each.steps for each in self.judged)

    def count(self, outcome: str) -> int:
        """How many incidents have this outcome."""
        return sum(each.outcome == outcome for each in self.incidents)

    def by_confidence(self) -> dict[str, Counter[str]]:
        """The outcomes of verdicts by their confidence."""
        counts: dict[str, Counter[str]] = {}
        for each in self.judged:
            if each.outcome is not None:
                counts.setdefault(each.verdict["confidence"], Counter())[each.outcome] += 1
        return counts


ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "never_sync": (Cause.JOIN_TIMEOUT,),
    "slow_consumer": (Cause.JOIN_TIMEOUT,),
    "block_poll": (Cause.JOIN_TIMEOUT,),
    "change_assignor_static": (Cause.FAILED_JOIN,),
}
"""What ledgers lack: a member that does not answer while others rebalance is late to join; and members that have the other assignor only
may be there, with which it may not join."""
OR_ELSE: Final[Mapping[str, tuple[str, ...]]] = {"join_with_other_assignor": (Cause.FAILED_JOIN,)}
"""What happens instead, for the same reason."""


def with_delays(day: Day) -> Day:
    """The day, with steps that last as long as the outage of the broker in which they end: their members cannot join before."""
    outages = [step for action in day.actions if action.incident == OUTAGE for step in action.steps]
    actions = []
    for action in day.actions:
        steps = []
        for step in action.steps:
            ends = (each.to_ms for each in outages if each.group == step.group and each.from_ms <= step.to_ms <= each.to_ms)
            also = (*step.also, *(ALSO.get(action.kind, ()) if step.causes else ()))
            causes = (*step.causes, *OR_ELSE.get(action.kind, ()))
            steps.append(replace(step, to_ms=max((step.to_ms, *ends)), causes=causes, also=also))
        actions.append(replace(action, steps=steps))
    return replace(day, actions=actions)


def score(day: Day, verdicts: Sequence[Verdict], on_screen: Sequence[Incident] = ()) -> Score:
    """How these verdicts, and the first screen, tell the day."""
    day = with_delays(day)
    judged = [_judge(day, verdict) for verdict in verdicts if verdict["started_ms"] <= day.to_ms]
    incidents = [_told(action, judged) for action in day.actions if not action.failure and not _is_disturbed(day, action)]
    told = [each for each in incidents if each is not None]
    return Score(told, judged, _listed_twice(verdicts), score_incidents(day, on_screen))


def _judge(day: Day, verdict: Verdict) -> Judged:
    first_ms = verdict["started_ms"]
    steps = day.steps_at(verdict["group"], first_ms - CLOCK_MS, first_ms + CLOCK_MS)
    if not steps and verdict["ended_ms"] is not None:
        steps = day.steps_at(verdict["group"], first_ms, verdict["ended_ms"])
    steps = [*steps, *(each for each in _of_loss(day, verdict) if all(each[1] is not step for _, step in steps))]
    tolerant = [step for _, step in steps if not step.causes]
    is_uncertain = tolerant or any(action.failure or _is_disturbed(day, action) for action, _ in steps)
    if not steps or is_uncertain:
        return Judged(verdict, steps, None)
    told = [*steps, *_within(day, verdict, steps)]
    if any(step.tolerates(verdict["cause"]) for _, step in steps):
        return Judged(verdict, told, RIGHT)
    holds = _holds(verdict, {cause for _, step in steps for cause in (*step.causes, *step.also)})
    return Judged(verdict, told, HELD if holds else WRONG)


def _within(day: Day, verdict: Verdict, steps: Iterable[tuple[Action, Step]]) -> Iterable[tuple[Action, Step]]:
    """What began while the rebalance ran, and is told among the causes that contributed to it."""
    if verdict["ended_ms"] is None:
        return
    known = {id(step) for _, step in steps}
    for action, step in day.steps_at(verdict["group"], verdict["started_ms"], verdict["ended_ms"]):
        if id(step) not in known and not action.failure and not set(step.causes).isdisjoint(verdict["contributing"]):
            yield action, step


def _of_loss(day: Day, verdict: Verdict) -> Sequence[tuple[Action, Step]]:
    """Of a member that comes back: what was done to it when it went, which is the cause of its return, however late that is."""
    before, after, who = verdict["members_before"], verdict["members_after"], verdict["who"]
    absence_ms = verdict["evidence"].get("absence_ms", 0)
    if before is None or after is None or after < before or who is None or absence_ms <= 0:
        return ()
    lost_ms = verdict["started_ms"] - absence_ms
    steps = day.steps_at(verdict["group"], lost_ms - CLOCK_MS, lost_ms + CLOCK_MS)
    return [(action, step) for action, step in steps if not {who["client_id"], who["instance_id"]}.isdisjoint(action.culprits)]


def _holds(verdict: Verdict, causes: Container[str]) -> bool:
    """Whether it says that it cannot tell, and does not exclude the truth."""
    is_open = verdict["cause"] == Cause.UNKNOWN or any(cause in causes for cause in verdict["candidates"])
    return is_open and verdict["confidence"] != "high"


def _told(action: Action, judged: Sequence[Judged]) -> ToldIncident | None:
    """How an action is told; None where there is nothing to tell."""
    outcomes, verdicts = [], []
    for step in action.steps:
        if not step.causes:
            continue
        here = [each for each in judged if any(other is step for _, other in each.steps)]
        verdicts += [each.verdict for each in here]
        if step.is_required:
            outcomes.append(_found(step, here))
        own = [each for each in here if each.outcome == WRONG and max(each.steps, key=_blame)[1] is step]
        outcomes += [WRONG for _ in own]
    if not outcomes and not verdicts:
        return None
    return ToldIncident(action, max(outcomes or [RIGHT], key=OUTCOMES.index), verdicts)


def _blame(pair: tuple[Action, Step]) -> tuple[bool, int]:
    """What is wrong belongs to the outage of a broker, or to the action that began last."""
    action, step = pair
    return action.incident == OUTAGE, step.from_ms


def _found(step: Step, judged: Sequence[Judged]) -> str:
    if not judged:
        return MISSED
    if any(each.verdict["cause"] in step.causes or not set(step.causes).isdisjoint(each.verdict["contributing"]) for each in judged):
        return RIGHT
    if any(_holds(each.verdict, step.causes) for each in judged):
        return HELD
    # Where others did something at the same time, all that is told may be theirs.
    are_others = all(any(other.tolerates(each.verdict["cause"]) for _, other in each.steps if other is not step) for each in judged)
    return MISSED if are_others else WRONG


def _is_disturbed(day: Day, action: Action) -> bool:
    return any(first_ms <= action.to_ms and action.from_ms <= last_ms for first_ms, last_ms in day.disturbed)


TWICE_MS: Final = 3_000


def _listed_twice(verdicts: Sequence[Verdict]) -> int:
    """Rebalances of one generation at about one time that are listed again; a member that is avoided may come back soon."""
    seen: dict[tuple[str, int | None, str], int] = {}
    count = 0
    for verdict in sorted(verdicts, key=lambda verdict: verdict["started_ms"]):
        place = (verdict["group"], verdict["generation"], verdict["kind"])
        count += verdict["started_ms"] - seen.get(place, -TWICE_MS) < (CLOCK_MS if verdict["kind"] == AVOIDED else TWICE_MS)
        seen[place] = verdict["started_ms"]
    return count


def score_day(day: Day, sources: Path) -> dict[str, Score]:
    """The score of each set of sources."""
    evidence = read_evidence(sources)
    return {name: score(day, *diagnose(item for item in evidence if is_of(item, names))) for name, names in SETS.items()}


def worsened(scores: Mapping[str, Score]) -> list[str]:
    """Incidents that are right by one source, and wrong by more of them."""
    outcomes = {name: {each.key: each.outcome for each in of_set.incidents} for name, of_set in scores.items()}
    found = []
    for fewer, more in ((a, b) for a in SETS for b in SETS if set(SETS[a]) < set(SETS[b])):
        for key, outcome in outcomes.get(fewer, {}).items():
            if outcome == RIGHT and outcomes.get(more, {}).get(key) == WRONG:
                found.append(f"{key[0]}: right by {fewer}, wrong by {more}")
    return found


def report(day: Day, scores: Mapping[str, Score], *, with_wrong: bool) -> list[str]:
    """The figures as lines; with what is wrong or missed, where that is asked for."""
    lines = [f"{day.broker}, seed {day.seed}: {len(day.actions)} actions of {len({each.kind for each in day.actions})} kinds"]
    lines.append(
        f"{'sources':<26}{'of':>4}{'right':>7}{'held':>6}{'missed':>8}{'wrong':>7}{'high right':>14}{'twice':>7}{'unexplained':>13}"
    )
    for name, of_set in scores.items():
        high = of_set.by_confidence().get("high", Counter())
        told = f"{high[RIGHT]}/{high.total()}"
        counts = "".join(f"{of_set.count(outcome):>{width}}" for outcome, width in ((RIGHT, 7), (HELD, 6), (MISSED, 8), (WRONG, 7)))
        lines.append(f"{name:<26}{len(of_set.incidents):>4}{counts}{told:>14}{of_set.twice:>7}{of_set.unexplained:>13}")
    for name, of_set in scores.items():
        shares = ", ".join(
            f"{confidence} {counts[RIGHT]} right {counts[HELD]} held {counts[WRONG]} wrong"
            for confidence, counts in sorted(of_set.by_confidence().items())
        )
        lines.append(f"verdicts by {name}: {shares}")
    for name, of_set in scores.items():
        screen = of_set.screen
        named = f"{screen.named} of {len(screen.told)} named, {screen.twice} twice, {len(screen.made_up)} made up"
        lines.append(f"first screen by {name}: {named}")
    lines += [f"worse with more sources: {each}" for each in worsened(scores)]
    if with_wrong:
        for name, of_set in scores.items():
            lines += ["", name, *(line for told in of_set.incidents if told.outcome != RIGHT for line in _told_lines(day, told))]
            lines += incident_lines(day, of_set.screen)
    return lines


def _told_lines(day: Day, told: ToldIncident) -> Iterable[str]:
    action = told.action
    groups = action.groups()
    steps = " then ".join("|".join(step.causes) or "nothing" for step in action.steps if step.group == groups[0])
    at_s = (action.from_ms - day.from_ms) / 1000
    yield f"  {told.outcome}: {at_s:.0f} s {action.kind} in {', '.join(groups)} ({', '.join(action.culprits)}), expected {steps}"
    lines: dict[str, list[float]] = {}
    for verdict in told.verdicts:
        candidates = "|".join(verdict["candidates"])
        who = (verdict["who"] or {}).get("client_id") or "-"
        line = f"{verdict['group']} gen {verdict['generation']} {verdict['cause']} {verdict['confidence']} of {candidates} who {who}"
        lines.setdefault(line, []).append((verdict["started_ms"] - day.from_ms) / 1000)
    for line, times_s in lines.items():
        yield f"      {times_s[0]:.1f} s {line}{f', {len(times_s)} times' if len(times_s) > 1 else ''}"
