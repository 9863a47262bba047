"""As an operator would: a real Apache Kafka, a group that rebalances again and again, its logs, and `ottla diagnose`, which says why.

Two minutes of clients that are too slow, frozen and deployed, so not part of `make test`: OTTLA_TRIAL=1 runs it.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trials.incidents.group_run import GroupRun, Plan
from trials.incidents.world import CONFIG, World

STEADY, SLOW, FROZEN, DEPLOYED = range(4)
CLIENTS = ("java", "confluent", "aiokafka", "kafka-python")
PLAN = Plan(id="trial", cause="", action="trial", protocol="classic", assignor="range", clients=CLIENTS, actor=SLOW, seed=4)
MAX_POLL_MS = 8_000
QUIET_S = 3.0
ROUNDS = 2
CAUSES = {"worker-confluent": "POLL_TIMEOUT", "worker-aiokafka": "EXPIRE_HEARTBEAT", "worker-kafka-python": "RESTART_DYNAMIC"}

pytestmark = [pytest.mark.kafka, pytest.mark.skipif("OTTLA_TRIAL" not in os.environ, reason="takes two minutes: OTTLA_TRIAL=1 runs it")]


def start_trial(run: GroupRun) -> None:
    """Start the members, each with a client id of its own; the slow one has a short max.poll.interval.ms."""
    run.create_topics()
    for position in range(len(CLIENTS)):
        _start(run, position)
    run.wait_stable()


def make_trouble(run: GroupRun) -> None:
    """One is slower than its poll interval, one is frozen for longer than its session timeout, one is deployed again."""
    run.members[SLOW].do("sleep", seconds=MAX_POLL_MS / 1000 + 5)
    run.wait_stable(without=[SLOW])
    run.wait_stable()
    time.sleep(QUIET_S)
    run.members[FROZEN].freeze()
    run.wait_stable(without=[FROZEN])
    run.members[FROZEN].thaw()
    run.wait_stable()
    time.sleep(QUIET_S)
    run.members.pop(DEPLOYED).close()
    time.sleep(1)
    _start(run, DEPLOYED)
    run.wait_stable()
    time.sleep(QUIET_S)


def _start(run: GroupRun, position: int) -> None:
    max_poll_ms = MAX_POLL_MS if position == SLOW else 60_000
    run.start(position, client_id=f"worker-{CLIENTS[position]}", session_ms=6_000, max_poll_ms=max_poll_ms)


def diagnose(*arguments: str) -> str:
    command = [sys.executable, "-m", "ottla", "diagnose", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_three_troubles_are_told_apart(reference: Any, tmp_path: Path) -> None:
    broker = reference.own(CONFIG)
    try:
        with World(broker.bootstrap_servers, tmp_path, class_path=reference.class_path()) as world:
            run = GroupRun(PLAN, world, run="trial", cluster="apache-kafka")
            try:
                start_trial(run)
                for _ in range(ROUNDS):
                    make_trouble(run)
            finally:
                run.kill_all()
        assert len(CLIENTS) == 4
        logs = [f"--client-log={path}" for path in (*run.log_paths(), world.shared_java_log)]
        chosen = ["--broker-log", str(broker.log_path), *logs, "--group", run.group]
        verdicts = [json.loads(line) for line in diagnose("--json", *chosen).splitlines()]
        found = Counter((verdict["who"]["client_id"], verdict["cause"]) for verdict in verdicts if verdict["who"] is not None)
        for client, cause in CAUSES.items():
            assert found[client, cause] >= 2 * ROUNDS - 1, (client, cause, found)
        text = diagnose("--rebalances", *chosen)
        (tmp_path / "diagnosis.txt").write_text(text)
        assert all(client in text for client in CAUSES)
    finally:
        reference.end_own()
