"""As an operator would: a real Apache Kafka, a group that rebalances again and again, its logs, and `ottla diagnose`, which says why.

Two minutes of clients that are too slow, frozen and deployed, so not part of `make test`: OTTLA_TRIAL=1 runs it.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla.testing.incidents.clusters import CONFIG
from ottla.testing.incidents.group_run import GroupRun
from ottla.testing.incidents.trial import CLIENTS, PLAN, make_trouble, start_trial
from ottla.testing.incidents.world import World

ROUNDS = 2
CAUSES = {"worker-confluent": "POLL_TIMEOUT", "worker-aiokafka": "EXPIRE_HEARTBEAT", "worker-kafka-python": "RESTART_DYNAMIC"}

pytestmark = [pytest.mark.kafka, pytest.mark.skipif("OTTLA_TRIAL" not in os.environ, reason="takes two minutes: OTTLA_TRIAL=1 runs it")]


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
        text = diagnose(*chosen)
        (tmp_path / "diagnosis.txt").write_text(text)
        assert all(client in text for client in CAUSES)
    finally:
        reference.end_own()
