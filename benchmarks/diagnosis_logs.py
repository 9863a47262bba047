"""How fast the log of a broker becomes evidence: MB/s from a file in the page cache, by one process and by two.

Logs with few, some and many lines of group coordinators, which are made of the lines that Apache Kafka 4.3 writes about joins, leaves,
expired sessions and assignments of groups of 3 to 50 members. The other lines are of its other parts. Beside it `grep -c` counts the
coordinators' lines: it reads the same bytes and understands none. All evidence is taken; nothing is concluded from it.
"""

import random
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from peers import OTTLA, arguments
from report import Metric, Report, at_least

from ottla.history.sources.log_files import LogFiles

GREP: Final = "grep -c"
TWO: Final = f"{OTTLA}, 2 processes"
FILE_BYTES, FILE_BYTES_SMALL = 1 << 30, 1 << 22
VARIED_BYTES: Final = 1 << 24
"""So much of a file is different text; the rest repeats it."""
SHARES: Final = {"1 %": 0.01, "5 %": 0.05, "12 %": 0.12, "50 %": 0.5}
"""Of the lines, those of coordinators. 12 % has the log of a small broker that does little but rebalance."""
TARGET_SHARES: Final = ("1 %", "5 %")
START: Final = datetime(2026, 11, 22, tzinfo=UTC)
LOGGER: Final = "(org.apache.kafka.coordinator.group.GroupMetadataManager)"
OTHERS: Final = (
    "[UnifiedLog partition=orders-{0}, dir=/var/lib/kafka] Rolled new log segment at offset {1} in 3 ms. "
    "(org.apache.kafka.storage.internals.log.UnifiedLog)",
    "[ProducerStateManager partition=orders-{0}] Wrote producer snapshot at offset {1} with 2 producer ids in 4 ms. "
    "(org.apache.kafka.storage.internals.log.ProducerStateManager)",
    "[Partition payments-{0} broker=1] ISR updated to 1,2,3 and version updated to {1} (kafka.cluster.Partition)",
    "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Partition clicks-{0} has an older epoch ({1}) than the current leader. "
    "Will await the new LeaderAndIsr state before resuming fetching. (kafka.server.ReplicaFetcherThread)",
    "[LocalLog partition=audit-{0}, dir=/var/lib/kafka] Deleting segment files LogSegment(baseOffset={1}, size=1073741803, "
    "lastModifiedTime=1795357867123, largestRecordTimestamp=1795357867120) (org.apache.kafka.storage.internals.log.LocalLog$)",
)


def rounds_of_group(rng: random.Random, number: int) -> Iterator[str]:
    """The lines of one rebalance after another of one group, without their times."""
    group = f"service-{number}.{rng.choice(('orders', 'clicks', 'payments'))}"
    members = [f"service-{number}-{index}-{uuid.UUID(int=rng.getrandbits(128))}" for index in range(rng.randint(3, 50))]
    count, generation = len(members), 1
    while True:
        member, kind = rng.choice(members), rng.randrange(3)
        if kind == 0:
            start = f"Dynamic member with unknown member id joins group {group} in Stable state."
            yield f"{start} Created a new member id {member} and requesting the member to rejoin with this id."
            yield f"Pending dynamic member with id {member} joins group {group} in Stable state. Adding to the group now."
            client_reason = f"need to re-join with the given member-id: {member}"
            reason = f"Adding new member {member} with group instance id null; client reason: {client_reason}"
        elif kind == 1:
            left = f"[Group {group}] Member {member} has left group through explicit `LeaveGroup` request"
            yield f"{left}; client reason: the consumer is being closed"
            reason = f"explicit `LeaveGroup` request for ({member}) members."
        else:
            yield f"Member {member} in group {group} has failed, removing it from the group."
            reason = f"removing member {member} on heartbeat expiration."
        yield f"Preparing to rebalance group {group} in state PreparingRebalance with old generation {generation} (reason: {reason})."
        generation += 1
        yield f"Stabilized group {group} generation {generation} with {count} members."
        received = f"Assignment received from leader {members[0]} for group {group} for generation {generation}."
        yield f"{received} The group has {count} members, 0 of which are static."


def varied_text(share: float, wanted: int) -> bytes:
    """So many bytes of a broker's log, with this share of coordinators' lines."""
    rng = random.Random(1)
    groups = [rounds_of_group(rng, number) for number in range(200)]
    lines, size, at = [], 0, START
    while size < wanted:
        at += timedelta(milliseconds=rng.randrange(40))
        if rng.random() < share:
            partition = rng.randrange(50)
            text = f"[GroupCoordinator id=1 topic=__consumer_offsets partition={partition}] {next(rng.choice(groups))} {LOGGER}"
        else:
            text = rng.choice(OTHERS).format(rng.randrange(50), rng.randrange(10**9))
        line = f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}] INFO {text}\n"
        lines.append(line)
        size += len(line)
    return "".join(lines).encode()


def write_log(path: Path, share: float, size: int) -> int:
    """A log of at least so many bytes; returns how many it has."""
    text = varied_text(share, min(size, VARIED_BYTES))
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(text)
        return file.tell()


def read_with_ottla(path: Path, processes: int) -> None:
    files = LogFiles(zone=UTC, processes=processes)
    files.add_broker_logs(str(path))
    count = sum(1 for _ in files.evidence())
    [counts] = files.counts.values()
    assert count == counts.evidence > 0
    assert not counts.skipped
    assert not files.problems


def read_with_grep(path: Path) -> None:
    """Its output is read: with /dev/null for it grep stops at the first line that it finds."""
    command = ["grep", "-c", "-F", "[GroupCoordinator ", str(path)]
    assert int(subprocess.run(command, env={"LC_ALL": "C"}, check=True, capture_output=True).stdout) > 0


READERS = {OTTLA: lambda path: read_with_ottla(path, 1), TWO: lambda path: read_with_ottla(path, 2), GREP: read_with_grep}


def main() -> None:
    wanted = arguments(__doc__, only=True)
    report = Report("Logs of brokers", rival=GREP)
    report.note(f"files of {1 if not wanted.small else 1 / 256:g} GB in the page cache; wall time, with the start of processes")
    with tempfile.TemporaryDirectory() as directory:
        for share, part in SHARES.items():
            name = f"{share} of lines of coordinators"
            if wanted.only not in name:
                continue
            path = Path(directory) / "server.log"
            size = write_log(path, part, FILE_BYTES_SMALL if wanted.small else FILE_BYTES)
            metric = Metric(name, "MB/s", *((">= 100", at_least(100)) if share in TARGET_SHARES else ("", None)))
            for _ in range(wanted.rounds):
                for peer, reader in READERS.items():
                    started = time.perf_counter()
                    reader(path)
                    report.add(metric, peer, size / (time.perf_counter() - started) / 1e6)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
