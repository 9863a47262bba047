"""How long a suite of tests takes in which every test has a broker of its own: pytest in a process of its own, from its start to its end.

- with the verbs of the fixture `ottla_broker`: a record is produced and read back
- the same with confluent-kafka's producer and consumer (no group), which work with every peer; Apache Kafka, which starts for seconds,
  runs a few of these tests only, and is compared by the time of one test
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

from peers import APACHE_KAFKA, HERE, MOCK, OTTLA, TANSU, PeerMissing, arguments, make_peer
from report import Metric, Report, at_most

TESTS, TESTS_SMALL = 200, 3
TESTS_OF_APACHE_KAFKA = 2
SUITE_SECONDS_MAX = 5

VERBS = """
import pytest

@pytest.mark.parametrize("number", range(COUNT))
def test_an_order_is_read_back(ottla_broker, number):
    ottla_broker.produce("orders", [b"%d" % number])
    assert ottla_broker.values("orders") == [b"%d" % number]
"""

CLIENT = """
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

@pytest.mark.parametrize("number", range(COUNT))
def test_an_order_is_read_back(bootstrap_servers, number):
    settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
    producer = Producer(settings)
    producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({**settings, "group.id": "unused"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    (message,) = consumer.consume(1, timeout=30)
    assert message.value() == b"%d" % number
    consumer.close()
"""

# What gives a test its broker: the fixture of each peer.
OTTLA_FIXTURE = """
@pytest.fixture
def bootstrap_servers(ottla_broker):
    return ottla_broker.bootstrap_servers
"""
MOCK_FIXTURE = """
from confluent_kafka import Producer

@pytest.fixture
def bootstrap_servers():
    cluster = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
"""
SERVER_FIXTURE = f"""
import sys

sys.path.insert(0, {str(HERE)!r})
from peers import make_peer

@pytest.fixture
def bootstrap_servers(tmp_path):
    peer = make_peer("PEER", tmp_path / "peer")
    peer.start()
    yield peer.bootstrap_servers
    peer.stop()
"""
FIXTURES = {OTTLA: OTTLA_FIXTURE, MOCK: MOCK_FIXTURE, TANSU: SERVER_FIXTURE, APACHE_KAFKA: SERVER_FIXTURE}


def run_suite(directory: Path, peer: str, tests: str, count: int) -> tuple[float, float]:
    """Seconds of the whole run of pytest, and of one test with the start and the stop of its broker, on average."""
    directory.mkdir()
    (directory / "conftest.py").write_text("import pytest\n" + FIXTURES[peer].replace("PEER", peer))
    (directory / "test_orders.py").write_text(tests.replace("COUNT", str(count)))
    # A run of pytest that starts this script must not hand its own options on.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--rootdir",
        ".",
        "-p",
        "no:cacheprovider",
        "--junitxml",
        "times.xml",
        "test_orders.py",
    ]
    begin = time.perf_counter()
    ran = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    whole = time.perf_counter() - begin
    assert ran.returncode == 0, f"{peer}: {ran.stdout}{ran.stderr}"
    times = [float(case.attrib["time"]) for case in ElementTree.parse(directory / "times.xml").iter("testcase")]
    assert len(times) == count, f"{peer}: {ran.stdout}"
    return whole, sum(times) / count


def is_available(peer: str, scratch: Path) -> bool:
    try:
        make_peer(peer, scratch / f"{peer}-check")
    except PeerMissing as reason:
        print(f"{peer}: left out, {reason}", file=sys.stderr)
        return False
    return True


def main() -> None:
    wanted = arguments(__doc__)
    count = TESTS_SMALL if wanted.small else TESTS
    verbs = Metric(f"{count} tests with verbs", "s", f"<= {SUITE_SECONDS_MAX} s", at_most(SUITE_SECONDS_MAX))
    clients = Metric(f"{count} tests with confluent-kafka", "s")
    one = Metric("one test with confluent-kafka", "ms")
    report = Report("A suite of tests with a broker each")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch_name:
        scratch = Path(scratch_name)
        peers = [peer for peer in wanted.peers if is_available(peer, scratch)]
        for number in range(wanted.rounds):
            for peer in peers:
                if peer == OTTLA:
                    whole, _ = run_suite(scratch / f"verbs-{number}", peer, VERBS, count)
                    report.add(verbs, peer, whole)
                tests = TESTS_OF_APACHE_KAFKA if peer == APACHE_KAFKA else count
                whole, each = run_suite(scratch / f"{peer}-{number}", peer, CLIENT, tests)
                if peer != APACHE_KAFKA:
                    report.add(clients, peer, whole)
                report.add(one, peer, each * 1000)
    report.note(
        f"Apache Kafka: {TESTS_OF_APACHE_KAFKA} tests a round. The seconds of a suite include those of pytest itself and its imports."
    )
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
