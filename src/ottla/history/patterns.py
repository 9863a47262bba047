"""The sentences that matter about a group: what happened, who caused most of it, and for each common cause the setting that helps."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.patterns.culprits import Culprit, find_culprit
from ottla.core.diagnosis.patterns.deployments import Deployment, find_deployments
from ottla.core.diagnosis.verdicts.rule import Confidence
from ottla.core.diagnosis.verdicts.verdict import AVOIDED, REBALANCE, SettingAdvice, Verdict

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
    found += [_advice_sentence(of_cause) for of_cause in _advised(verdicts)[:ADVICE_SHOWN]]
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


def _advice_sentence(of_cause: Sequence[Verdict]) -> str:
    """The advice for one cause, with the greatest value of its verdicts."""
    advice = max((verdict.advice[0] for verdict in of_cause), key=_number)
    names = dict.fromkeys(verdict.who.label for verdict in of_cause if verdict.who is not None)
    shown = ", ".join([*list(names)[:CLIENTS_SHOWN], *(["..."] if len(names) > CLIENTS_SHOWN else [])])
    head = f"{of_cause[0].cause} of {shown}" if shown else f"{of_cause[0].cause}"
    if advice.value is None:
        return f"{head}: {advice.sentence}"
    value = f" = {advice.value}" if _number(advice) >= 0 else ""
    warning = f" But: {advice.warning}" if advice.warning is not None else ""
    return f"{head}: {advice.setting}{value} would have avoided {_count(len(of_cause), 'rebalance')}. {advice.sentence}{warning}"


def _number(advice: SettingAdvice) -> int:
    return int(advice.value) if advice.value is not None and advice.value.isdecimal() else -1


def _unsure_sentence(verdicts: Sequence[Verdict]) -> str | None:
    wanted = Counter(each.sharper for each in verdicts if each.sharper is not None and each.confidence < Confidence.HIGH)
    if not wanted:
        return None
    text, count = wanted.most_common(1)[0]
    return f"{_count(count, 'verdict')} {'is' if count == 1 else 'are'} not sure. {text}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
