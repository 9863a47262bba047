"""Every move is possible and makes the step that its kind names."""

from collections.abc import Callable
from random import Random

from ottla.testing.clients.raw_client import build_request
from ottla.testing.group_scripts.moves import MOVES
from ottla.testing.group_scripts.script import Script
from ottla.testing.group_scripts.script_state import ScriptState, Step


def test_every_kind_of_step_occurs_and_is_a_request(stable: Callable[[int], ScriptState]) -> None:
    kinds: dict[str, Step] = {}
    for seed in range(60):
        rng = Random(seed)
        for state in (stable(seed), Script(seed, "g").state):
            for _ in range(4):
                for move in MOVES:
                    step = move.make(rng, state)
                    if step is not None:
                        kinds.setdefault(step.kind, step)
    for step in kinds.values():
        assert step.api is not None
        build_request(step.api, step.version, dict(step.values) if step.api != 8 else {})
    names = (
        "rejoin",
        "static-bounce",
        "join",
        "sync",
        "heartbeat",
        "leave",
        "commit",
        "fetch",
        "offset-delete",
        "describe",
        "list",
        "find",
    )
    assert all(any(kind.startswith(name) for kind in kinds) for name in (*names, "delete-groups", "delete-topic"))
    assert len(kinds) > 70, sorted(kinds)
