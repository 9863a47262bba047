"""Peers that hold memory end by themselves, and the broker lives."""

import pytest

from ottla.broker import Broker
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.attacks import memory
from ottla.testing.attacks.target import Target


@pytest.mark.parametrize("attack", [memory.announced_frames, memory.half_frames, memory.slow_readers, memory.silent_connections])
def test_it_ends(attack: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "HOLD_SECONDS", 0.1)
    with Broker() as broker:
        target = Target(broker.bootstrap_servers, scale=0.005)
        assert attack(target) >= 0  # type: ignore[operator]
        assert target.send([target.frame(ApiKey.API_VERSIONS, 0)]) > 0
