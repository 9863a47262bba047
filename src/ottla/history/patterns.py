"""Finds what several rebalances of a group have in common, and says it: deployments, members that flap, the member that causes most."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple

from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import AVOIDED, REBALANCE, Confidence, SettingAdvice, Verdict

LAST_COUNT: Final = 6
"""How many rebalances "the last" are."""
FLAPS_MIN: Final = 3
FLAP_WITHIN_MS: Final = 600_000
"""A member that caused so many unplanned rebalances within this time flaps."""


class Culprit(NamedTuple):
    """A member by its name, and how many of the last `of_last` rebalances it caused."""

    name: str
    caused: int
    of_last: int
    is_flapping: bool


def find_culprit(verdicts: Sequence[Verdict]) -> Culprit | None:
    """The member that caused most of the last rebalances that were not planned; None where none caused two."""
    last = [verdict for verdict in verdicts if verdict.kind == REBALANCE][-LAST_COUNT:]
    unplanned = [verdict for verdict in last if verdict.planned is False and verdict.who is not None and verdict.who.name is not None]
    counts = Counter(verdict.who.name for verdict in unplanned if verdict.who is not None and verdict.who.name is not None)
    if not counts:
        return None
    name, caused = counts.most_common(1)[0]
    return Culprit(name, caused, len(last), name in flapping(verdicts)) if caused > 1 else None


def flapping(verdicts: Sequence[Verdict]) -> frozenset[str]:
    """The names of members that flap."""
    times: dict[tuple[str, str], list[int]] = {}
    found: set[str] = set()
    for verdict in verdicts:
        if verdict.planned is not False or verdict.who is None or verdict.who.name is None:
            continue
        of_member = times.setdefault((verdict.who.name, verdict.clock), [])
        of_member.append(verdict.started_ms)
        del of_member[:-FLAPS_MIN]
        if len(of_member) == FLAPS_MIN and of_member[-1] - of_member[0] <= FLAP_WITHIN_MS:
            found.add(verdict.who.name)
    return frozenset(found)


PAUSE_MAX_MS: Final = 300_000
"""Restarts further apart than this are not of one deployment."""
CLIENTS_MIN: Final = 2

_NUMBER: Final = re.compile(r"(?:[-_.]?(?:[0-9a-f]{6,10}-[0-9a-z]{5}|\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))+$")


class Deployment(NamedTuple):
    """One rolling deployment: its clients in the order in which they restarted, and the verdicts that belong to it.

    stopped_partition_seconds: None where no verdict knows its cost.
    """

    clients: tuple[str, ...]
    started_ms: int
    ended_ms: int
    verdicts: tuple[Verdict, ...]
    stopped_partition_seconds: float | None


def find_deployments(verdicts: Sequence[Verdict]) -> list[Deployment]:
    """The deployments in the verdicts of one group, which are in their order."""
    found: list[Deployment] = []
    runs: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.cause is not Cause.RESTART_DYNAMIC or verdict.who is None:
            continue
        key = (verdict.clock, family(verdict.who.label))
        run = runs.setdefault(key, [])
        if run and verdict.started_ms - _end_ms(run[-1]) > PAUSE_MAX_MS:
            found += _as_deployment(run)
            run.clear()
        run.append(verdict)
    for run in runs.values():
        found += _as_deployment(run)
    return sorted(found, key=lambda deployment: deployment.started_ms)


def family(name: str) -> str:
    """What the names of one deployment's clients have in common: without a number, a pod's suffix or a UUID at their end."""
    return _NUMBER.sub("", name) or name


def _as_deployment(run: list[Verdict]) -> list[Deployment]:
    clients = tuple(dict.fromkeys(verdict.who.label for verdict in run if verdict.who is not None))
    if len(clients) < CLIENTS_MIN:
        return []
    seconds = [each.cost.stopped_partition_seconds for each in run if each.cost.stopped_partition_seconds is not None]
    return [Deployment(clients, run[0].started_ms, _end_ms(run[-1]), tuple(run), round(sum(seconds), 3) if seconds else None)]


def _end_ms(verdict: Verdict) -> int:
    return verdict.started_ms if verdict.ended_ms is None else verdict.ended_ms


CLIENTS_SHOWN: Final = 4
ADVICE_SHOWN: Final = 3
"""Causes for which advice is given: each may need another setting."""


def sentences(verdicts: Sequence[Verdict], *, time_text: Callable[[int], str]) -> list[str]:
    """The sentences about one group. `time_text` writes a time."""
    if not verdicts:
        return []
    deployments = find_deployments(verdicts)
    deployed = frozenset(client for deployment in deployments for client in deployment.clients)
    found = [_what_happened(verdicts, deployed)]
    if deployments:
        longest = max(deployments, key=lambda each: len(each.verdicts))
        found.append(_deployment_sentence(longest, time_text, more=len(deployments) - 1))
    found += [_advice_sentence(of_cause, time_text) for of_cause in _advised(verdicts)[:ADVICE_SHOWN]]
    unsure = _unsure_sentence(verdicts)
    if unsure is not None and len(found) < 3:
        found.append(unsure)
    return found


def _what_happened(verdicts: Sequence[Verdict], deployed: frozenset[str]) -> str:
    rebalances = [verdict for verdict in verdicts if verdict.kind == REBALANCE]
    avoided = len(verdicts) - len(rebalances)
    unplanned = Counter(verdict.cause for verdict in rebalances if verdict.planned is False)
    text = f"{_count(len(rebalances), 'rebalance')}, "
    if unplanned:
        text += f"{unplanned.total()} not planned ({', '.join(f'{count} {cause}' for cause, count in unplanned.most_common())})"
    else:
        text += "none of them unplanned"
    culprit = find_culprit(verdicts)
    if culprit is not None and culprit.name not in deployed:
        text += f"; {_culprit_text(culprit)}"
    if avoided:
        static = sum(verdict.kind == AVOIDED and verdict.cause is Cause.STATIC_REJOIN for verdict in verdicts)
        text += f"; static membership avoided {static}" if static else ""
    return f"{text}."


def _culprit_text(culprit: Culprit) -> str:
    flaps = " (it flaps)" if culprit.is_flapping else ""
    return f"{culprit.name} caused {culprit.caused} of the last {culprit.of_last}{flaps}"


def _deployment_sentence(deployment: Deployment, time_text: Callable[[int], str], *, more: int) -> str:
    clients = ", ".join(deployment.clients[:CLIENTS_SHOWN]) + (", ..." if len(deployment.clients) > CLIENTS_SHOWN else "")
    seconds = deployment.stopped_partition_seconds
    cost = "" if seconds is None else f" and {seconds:,.1f} partition-seconds of standstill"
    others = f" There were {more} more." if more else ""
    return (
        f"A rolling deployment of {len(deployment.clients)} clients ({clients}) from {time_text(deployment.started_ms)} to "
        f"{time_text(deployment.ended_ms)} cost {_count(len(deployment.verdicts), 'rebalance')}{cost}.{others}"
    )


def _advised(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """The rebalances that a setting would have avoided, by cause, the commonest cause first."""
    by_cause: dict[Cause, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.kind == REBALANCE and verdict.avoidable and verdict.advice:
            by_cause.setdefault(verdict.cause, []).append(verdict)
    return sorted(by_cause.values(), key=len, reverse=True)


def _advice_sentence(of_cause: Sequence[Verdict], time_text: Callable[[int], str]) -> str:
    """The advice for one cause, with the greatest value of its verdicts and the time of the first and the last."""
    advice = max((verdict.advice[0] for verdict in of_cause), key=_number)
    names = dict.fromkeys(verdict.who.label for verdict in of_cause if verdict.who is not None)
    shown = ", ".join([*list(names)[:CLIENTS_SHOWN], *(["..."] if len(names) > CLIENTS_SHOWN else [])])
    times = list(dict.fromkeys(time_text(verdict.started_ms) for verdict in (of_cause[0], of_cause[-1])))
    head = f"{of_cause[0].cause}{f' of {shown}' if shown else ''} ({' to '.join(times)})"
    if advice.value is None:
        return f"{head}: {advice.sentence}"
    value = f" = {advice.value}" if _number(advice) >= 0 else ""
    absences = sorted(verdict.evidence["absence_ms"] for verdict in of_cause if "absence_ms" in verdict.evidence)
    sample = ""
    if len(absences) > 1:
        sample = f" {len(absences)} absences: {absences[0] / 1000:.3g} to {absences[-1] / 1000:.3g} s, half below "
        sample += f"{median(absences) / 1000:.3g} s."
    warning = f" But: {advice.warning}" if advice.warning is not None else ""
    return f"{head}: {advice.setting}{value} would have avoided {_count(len(of_cause), 'rebalance')}. {advice.sentence}{sample}{warning}"


def _number(advice: SettingAdvice) -> int:
    return int(advice.value) if advice.value is not None and advice.value.isdecimal() else -1


def _unsure_sentence(verdicts: Sequence[Verdict]) -> str | None:
    wanted = Counter(verdict.sharper for verdict in verdicts if verdict.sharper is not None and verdict.confidence < Confidence.HIGH)
    if not wanted:
        return None
    text, count = wanted.most_common(1)[0]
    return f"{_count(count, 'verdict')} {'is' if count == 1 else 'are'} not sure. {text}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
