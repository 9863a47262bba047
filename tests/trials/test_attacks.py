"""Every attack runs, small, against a real broker, and its outcome is measured."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.broker import Broker
from ottla.cli.processes import OttlaProcess
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import create_topic
from trials.attacks import hostile_clients as memory
from trials.attacks import hostile_clients as requests
from trials.attacks.canary import Canary, Waiting
from trials.attacks.catalog import ATTACKS, PeakMemory, run_attack
from trials.attacks.target import Target

SCALE = 0.001


TRIED = ("zstd", "Metadata", "four APIs", "expressions")


@pytest.mark.parametrize("name", [name for name in ATTACKS if any(part in name for part in TRIED)])
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


# --- peers that hold memory end by themselves, and the broker lives


@pytest.mark.parametrize("attack", [memory.announced_frames, memory.half_frames, memory.slow_readers, memory.silent_connections])
def test_it_ends(attack: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "HOLD_SECONDS", 0.1)
    with Broker() as broker:
        target = Target(broker.bootstrap_servers, scale=0.005)
        assert attack(target) >= 0  # type: ignore[operator]
        assert target.send([target.frame(ApiKey.API_VERSIONS, 0)]) > 0


# --- the requests reach their handlers: what they prepare is there, and nothing is answered by a closed connection


@pytest.mark.parametrize(
    "attack",
    [
        requests.metadata_of_one_topic,
        requests.metadata_of_all_topics,
        requests.offsets_of_one_group,
        requests.description_of_one_large_member,
        requests.changes_of_one_resource,
        requests.many_names,
        requests.many_items,
        requests.pipelined_requests,
        requests.creation_by_metadata,
        requests.creation_of_many_partitions,
        requests.use_of_many_partitions,
    ],
)
def test_every_request_is_answered(attack: object, caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker, caplog.at_level(logging.WARNING):
        assert attack(Target(broker.bootstrap_servers, scale=0.0005)) > 0  # type: ignore[operator]
    assert "closing the connection" not in caplog.text


# --- the canary measures the longest wait, also of an answer that has not come yet


def test_an_answer_that_has_not_come_counts() -> None:
    waiting = Waiting()
    waiting.asked("Fetch")
    time.sleep(0.01)
    first = waiting.read()
    assert first.worst_ms >= 10
    assert (first.request, first.answered) == ("Fetch", 0)
    waiting.answered()
    assert waiting.read().answered == 1
    assert waiting.read() == (0.0, "", 0)


def test_it_asks_a_real_broker() -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "canary")
        with Canary(broker.bootstrap_servers, "canary") as canary:
            waits = canary.read()
            while waits.answered < 3:
                waits = canary.read()
    assert waits.worst_ms > 0
    assert waits.request in ("Produce", "Fetch", "Metadata")


# --- the attacker's process names the attacks that are over, and ends with its input


def test_it_attacks_until_its_input_ends() -> None:
    with Broker() as broker:
        command = [sys.executable, "-m", "trials.attacks.neighbours", broker.bootstrap_servers, "1", "0.0005"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attacker:
            assert attacker.stdout is not None
            assert attacker.stdin is not None
            assert attacker.stdout.readline().strip() in ATTACKS
            attacker.stdin.close()
            assert attacker.wait(30) == 0
