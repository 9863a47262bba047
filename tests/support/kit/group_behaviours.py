"""Behaviours of groups for tests of what-if: processes written by hand, and whole groups from a seed."""

import random
from collections.abc import Mapping

from ottla.history.whatif.behaviour import Action, ActionKind, GroupBehaviour, Process, Reaction

SESSION_MS = 6_000
POLL_MS = 10_000
STEP_MS = 60_000
"""Between two incidents of a random group: what follows from one is over when the next begins."""


def process(name: str, *actions: Action, instance_id: str | None = None) -> Process:
    """A process with a session of 6 s and a poll interval of 10 s that reads the topic `t`."""
    return Process(
        name=name,
        client_id=name,
        client_host="/127.0.0.1",
        instance_id=instance_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=POLL_MS,
        topics=frozenset({"t"}),
        actions=actions,
    )


def behaviour(
    *processes: Process, ended_ms: int = 200_000, protocol: str = "range", partitions: Mapping[str, int] | None = None
) -> GroupBehaviour:
    """A group whose members notice a rebalance within a second; the first one waits 3 s for more members."""
    return GroupBehaviour(
        group="g",
        started_ms=0,
        ended_ms=ended_ms,
        protocol=protocol,
        processes=processes,
        partition_counts=((0, partitions or {"t": 6}),),
        reactions=(Reaction(0, 1_000, 10),),
        initial_rebalance_delay_ms=3_000,
    )


def random_behaviour(seed: int, *, protocol: str = "range") -> GroupBehaviour:
    """A group of two to five processes, each of which has a few incidents; no two incidents of the group touch each other."""
    rng = random.Random(seed)
    names = [f"c{number}" for number in range(rng.randint(2, 5))]
    actions = {name: [Action(at_ms=2_000 * at, kind=ActionKind.START)] for at, name in enumerate(names)}
    for step in range(1, rng.randint(2, 8)):
        name = rng.choice(names)
        if actions[name][-1].kind is not ActionKind.CRASH:
            actions[name] += _incident(rng, step * STEP_MS)
    processes = [process(name, *actions[name], instance_id=name if rng.random() < 0.3 else None) for name in names]
    return behaviour(*processes, ended_ms=9 * STEP_MS, protocol=protocol)


def _incident(rng: random.Random, at_ms: int) -> list[Action]:
    length_ms = rng.randrange(500, 25_000)
    if length_ms in range(SESSION_MS - 1_000, SESSION_MS + 1_000) or length_ms in range(POLL_MS - 1_000, POLL_MS + 1_000):
        length_ms += 2_000
    kind = rng.choice((ActionKind.SILENCE, ActionKind.POLL_GAP, ActionKind.CLOSE, ActionKind.CRASH))
    if kind in (ActionKind.SILENCE, ActionKind.POLL_GAP):
        return [Action(at_ms=at_ms, kind=kind, until_ms=at_ms + length_ms)]
    returns = kind is ActionKind.CLOSE and rng.random() < 0.7
    return [Action(at_ms=at_ms, kind=kind), *([Action(at_ms=at_ms + length_ms, kind=ActionKind.START)] if returns else [])]
