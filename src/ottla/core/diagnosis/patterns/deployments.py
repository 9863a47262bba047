"""Finds rolling deployments: several clients of one kind that restart one after the other, each of which costs its group two rebalances."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.verdicts.verdict import Verdict

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
    return sorted(found, key=_started_ms)


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


def _started_ms(deployment: Deployment) -> int:
    return deployment.started_ms
