"""How long it takes until a broker can be used, and how much memory it then holds.

- in this process: from `Broker()` to `bootstrap_servers`, after the import; in a fresh interpreter each time
- as a process: from the command to the first answer (ApiVersions and Metadata)
- resident memory right after that
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import APACHE_KAFKA, MOCK, OTTLA, PeerMissing, arguments, make_peer
from report import Metric, Report, at_most

from tests.support.processes import resident_bytes

IMPORT = Metric("import", "ms")
IN_PROCESS = Metric("start in process, after the import", "ms", "<= 50 ms", at_most(50))
PROCESS = Metric("start of the process", "ms", "<= 500 ms", at_most(500))
FIRST = Metric("the same, on a new directory that must be formatted", "ms")
MEMORY = Metric("resident memory, idle", "MB", "<= 60 MB", at_most(60))

# Each ends when the address is known; that a broker answers there is checked afterwards.
START_HERE = {
    OTTLA: """
import time
begin = time.perf_counter()
from ottla.broker import Broker
imported = time.perf_counter()
broker = Broker()
broker.start()
address = broker.bootstrap_servers
started = time.perf_counter()
""",
    MOCK: """
import time
begin = time.perf_counter()
from confluent_kafka import Producer
imported = time.perf_counter()
producer = Producer({"bootstrap.servers": "x", "test.mock.num.brokers": 1, "log_level": 0})
broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
address = f"{broker.host}:{broker.port}"
started = time.perf_counter()
""",
}
CHECK = """
from tests.support.reference.apache_kafka import answers
assert answers(address)
print((imported - begin) * 1000, (started - imported) * 1000)
"""


def start_here(peer: str) -> tuple[float, float]:
    """Milliseconds of the import and of the start, in a fresh interpreter."""
    ran = subprocess.run([sys.executable, "-c", START_HERE[peer] + CHECK], stdout=subprocess.PIPE, text=True, check=True)
    imported, started = ran.stdout.split()[-2:]
    return float(imported), float(started)


def start_process(report: Report, name: str, directory: Path) -> None:
    peer = make_peer(name, directory)
    begin = time.perf_counter()
    peer.start()
    first = time.perf_counter() - begin
    if name == APACHE_KAFKA:
        peer.stop()
        begin = time.perf_counter()
        peer.start()
        second = time.perf_counter() - begin
        report.add(PROCESS, name, second * 1000)
        report.add(FIRST, name, first * 1000)
    else:
        report.add(PROCESS, name, first * 1000)
    report.add(MEMORY, name, resident_bytes(peer.pid) / 1e6)
    peer.stop()


def main() -> None:
    wanted = arguments(__doc__)
    report = Report("Start")
    missing: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch:
        for number in range(wanted.rounds):
            for name in wanted.peers:
                if name in START_HERE:
                    imported, started = start_here(name)
                    report.add(IMPORT, name, imported)
                    report.add(IN_PROCESS, name, started)
                if name in missing:
                    continue
                try:
                    start_process(report, name, Path(scratch) / f"{name}-{number}")
                except PeerMissing as reason:
                    print(f"{name}: left out, {reason}", file=sys.stderr)
                    missing.add(name)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
