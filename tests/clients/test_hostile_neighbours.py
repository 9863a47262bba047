"""Honest consumers of three libraries keep their sessions, and lose nothing, while hostile clients attack the same broker process.

OTTLA_HOSTILE_SECONDS (20) and OTTLA_HOSTILE_SCALE (0.2) make it longer and the attacks larger: `make soak` runs them whole.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from ottla.cli.processes import OttlaProcess, ServerProcess
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from tests.support.processes import resident_bytes
from trials.attacks.catalog import ATTACKS
from trials.chaos.members import read_journal
from trials.chaos.worker import CLASSIC

SECONDS = float(os.environ.get("OTTLA_HOSTILE_SECONDS", "20"))
SCALE = float(os.environ.get("OTTLA_HOSTILE_SCALE", "0.2"))
GROUP, TOPIC, PARTITIONS = "honest", "honest", 6
SETTINGS = {"group.initial.rebalance.delay.ms": "3000", "group.min.session.timeout.ms": "1000"}
RESIDENT_BYTES_MAX = 700_000_000
"""What attackers sent and the broker rightly keeps (a member's metadata, topics), and 150 MB; without bounds it is gigabytes."""
WAIT_SECONDS_MAX = 60
ATTACKS_MIN = 5


def described(broker: OttlaProcess) -> tuple[str, set[str]]:
    """The honest group's state and members."""
    with RawClient(broker.bootstrap_servers, timeout_seconds=WAIT_SECONDS_MAX) as client:
        (group,) = client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[GROUP]).groups
    return group.group_state, {member.member_id for member in group.members}


def produce(broker: OttlaProcess, values: list[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(WAIT_SECONDS_MAX) == 0


def test_honest_consumers_keep_their_sessions(tmp_path: Path) -> None:
    journals = {library: tmp_path / library for library in CLASSIC}
    consumers: list[ServerProcess] = []
    with OttlaProcess(tmp_path / "data", config=SETTINGS) as broker:
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS)
        try:
            for library, journal in journals.items():
                job = (library, broker.bootstrap_servers, GROUP, TOPIC, "range", str(journal))
                command = [sys.executable, "-m", "trials.chaos.worker", *job]
                consumers.append(ServerProcess(command, log_path=tmp_path / f"{library}.log"))
            wait_until(
                lambda: described(broker)[0] == "Stable" and len(described(broker)[1]) == len(CLASSIC),
                "a stable group",
                seconds=WAIT_SECONDS_MAX,
            )
            _, members = described(broker)
            attacks = under_attack(broker, tmp_path / "attacks")
            assert described(broker) == ("Stable", members), "a member was lost"
            assert resident_bytes(broker.pid) < RESIDENT_BYTES_MAX
            values = {b"after-%d" % number for number in range(60)}
            produce(broker, sorted(values))
            wait_until(
                lambda: values <= {value.encode() for each in journals.values() for *_, value in read_journal(each).processed},
                "all read",
                seconds=WAIT_SECONDS_MAX,
            )
        finally:
            for consumer in consumers:
                consumer.stop()
        trouble = [text for each in journals.values() for text in read_journal(each).trouble]
        assert trouble == []
        assert "Traceback" not in broker.log_path.read_text(errors="replace")
    print(f"{len(attacks)} attacks: {attacks}")


def under_attack(broker: OttlaProcess, log_path: Path) -> list[str]:
    """Has the attacker work for so long while honest records are produced; the attacks that are over."""
    command = [sys.executable, "-m", "trials.attacks.neighbours", broker.bootstrap_servers, "1", str(SCALE)]
    with (
        log_path.open("w") as output,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT) as attacker,
    ):
        end, deadline = time.monotonic() + SECONDS, time.monotonic() + SECONDS + WAIT_SECONDS_MAX
        number = 0
        while time.monotonic() < end or len(over(log_path)) < ATTACKS_MIN:
            assert attacker.poll() is None, log_path.read_text()
            assert time.monotonic() < deadline, f"fewer than {ATTACKS_MIN} attacks were over: {over(log_path)}"
            produce(broker, [b"during-%d" % number])
            number += 1
            time.sleep(0.05)
        attacker.kill()
    assert set(over(log_path)) <= set(ATTACKS), over(log_path)
    return over(log_path)


def over(log_path: Path) -> list[str]:
    """The attacks that the attacker says are over."""
    return log_path.read_text().splitlines()
