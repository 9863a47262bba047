"""Every attack runs, small, against a real broker, and its outcome is measured."""

import os
from pathlib import Path

import pytest

from ottla.testing.attacks.canary import Canary
from ottla.testing.attacks.catalog import ATTACKS, PeakMemory, run_attack
from ottla.testing.attacks.target import Target
from ottla.testing.processes.ottla_process import OttlaProcess

SCALE = 0.001


@pytest.mark.parametrize("name", [name for name in ATTACKS if "zstd" in name or "Metadata" in name or "four APIs" in name])
def test_an_attack_is_measured(name: str, tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data") as broker:
        target = Target(broker.bootstrap_servers, scale=SCALE)
        with Canary(broker.bootstrap_servers, target.topic("canary", 1)) as canary:
            outcome = run_attack(name, target, canary, broker.pid)
            assert outcome.sent_bytes > 0
            assert outcome.waits.worst_ms > 0
        assert broker.is_running


def test_memory_that_grows_is_seen() -> None:
    with PeakMemory(os.getpid()) as peak:
        held = b"\1" * 200_000_000  # much more than what the kernel may take back of this process meanwhile
    assert peak.grown_bytes >= 30_000_000
    del held
