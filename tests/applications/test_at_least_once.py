"""Temperatures are converted at least once: a process that is killed between producing and committing loses none."""

import os
import signal
import subprocess
import sys

from ottla.testing import Broker

# Commits after each message, but not after the one that is given: there it waits to be killed.
CONVERTER = """
import sys, time
from confluent_kafka import Consumer, Producer

servers, name, last = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
consumer = Consumer({"bootstrap.servers": servers, "client.id": name, "group.id": "converter",
                     "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe(["celsius"])
while True:
    message = consumer.poll(1)
    if message is None or message.error():
        continue
    producer.produce("fahrenheit", str(round(float(message.value()) * 1.8 + 32)), message.key())
    producer.flush()
    if message.key() == last.encode():
        time.sleep(60)
    consumer.commit(message, asynchronous=False)
"""


def test_a_killed_converter_loses_nothing(ottla_broker: Broker) -> None:
    def start(name: str, last: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", CONVERTER, ottla_broker.bootstrap_servers, name, last])

    ottla_broker.create_topic("fahrenheit")
    ottla_broker.produce("celsius", [("oslo", "-5"), ("rome", "20"), ("lima", "15")])
    group = ottla_broker.group("converter")
    processes = [
        start("first", last="rome"),
    ]
    try:
        assert [record.value for record in ottla_broker.consume("fahrenheit", 2)] == [b"23", b"68"]
        assert group.committed() == {("celsius", 0): 1}
        with group.expect(unplanned=1):
            os.kill(processes[0].pid, signal.SIGKILL)
            group.expire("first")
            processes.append(start("second", last="none"))
            group.wait(members=1, lag=0)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert ottla_broker.values("fahrenheit") == [b"23", b"68", b"68", b"59"]
    assert [event.client_id for event in group.events() if event.trigger == "EXPIRE_HEARTBEAT"] == ["first"]
