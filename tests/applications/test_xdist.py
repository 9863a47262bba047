"""A suite whose tests all use the same names, run by four workers of pytest-xdist at once."""

import os
import subprocess
import sys
from pathlib import Path

SUITE = """
import os

import pytest
from confluent_kafka import Consumer, Producer


def total(bootstrap_servers, group, topic, count):
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    amounts = [int(message.value()) for message in consumer.consume(count, timeout=60)]
    consumer.close()
    return sum(amounts)


@pytest.mark.parametrize("number", range(8))
def test_orders_are_added_up(ottla_broker, number):
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    for _ in range(number + 1):
        producer.produce("orders", str(number))
    producer.flush()
    assert total(ottla_broker.bootstrap_servers, "billing", "orders", number + 1) == number * (number + 1)
    assert ottla_broker.group("billing").committed() == {("orders", 0): number + 1}


@pytest.mark.parametrize("number", range(8))
def test_with_the_broker_of_the_worker(ottla_broker_session, worker_id, number):
    with open(os.environ["BROKERS"], "a") as brokers:
        brokers.write(f"{worker_id} {ottla_broker_session.bootstrap_servers}\\n")
    ottla_broker_session.produce(f"orders-{number}", [b"1", b"2"])
    assert total(ottla_broker_session.bootstrap_servers, f"billing-{number}", f"orders-{number}", 2) == 3
"""


def test_four_workers_do_not_disturb_each_other(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    brokers = tmp_path / "brokers.txt"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "4", "--dist", "load", "test_suite.py"]
    ran = subprocess.run(command, cwd=tmp_path, env={**environment, "BROKERS": str(brokers)}, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "16 passed" in ran.stdout
    used = {tuple(line.split()) for line in brokers.read_text().splitlines()}
    workers, addresses = zip(*used)
    assert len(used) == len(set(workers)) == len(set(addresses)), "a worker has one broker of its own"
