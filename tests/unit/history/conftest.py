from collections.abc import Callable
from typing import Any

import pytest

from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.policy import POLICIES
from ottla.history.verdicts.verdict import REBALANCE, Confidence, Cost, Verdict
from tests.support.kit.scripted_cluster import ScriptedCluster


@pytest.fixture
def cluster() -> ScriptedCluster:
    """A cluster in memory, which is its own admin client and fetcher."""
    return ScriptedCluster()


def _verdict(cause: Cause, name: str | None, at_ms: int, **fields: Any) -> Verdict:
    known = {
        "group": "g",
        "generation": 1,
        "started_ms": at_ms,
        "ended_ms": at_ms + 500,
        "kind": REBALANCE,
        "cause": cause,
        "candidates": (cause,),
        "confidence": Confidence.HIGH,
        "planned": POLICIES[cause].planned,
        "avoidable": POLICIES[cause].avoidable,
        "who": None if name is None else Identity("m", None, name),
        "cost": Cost(4, 2.0),
    }
    return Verdict(**(known | fields))


@pytest.fixture
def verdict() -> Callable[..., Verdict]:
    """`verdict(cause, client id, at_ms, **fields)`: half a second, two partition-seconds."""
    return _verdict
