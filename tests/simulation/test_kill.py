"""A writer that is really killed, with SIGKILL, two hundred times: the operating system keeps what the process had written.

So every acknowledged record is there, no offset is given twice, and the log goes on where it ended; whatever the writer did: appending,
rolling, syncing full segments on another thread, deleting old ones, or closing.
"""

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings

KILLS = 200
SETTINGS = LogSettings(segment_bytes=200_000, retention_bytes=1_000_000, retention_ms=-1)
ACKNOWLEDGED = struct.Struct(">q")

# It imports once and forks for each life: a life costs milliseconds, and what is killed is a whole process all the same.
WRITERS = """
import os, struct, sys
from random import Random
from threading import Thread
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings

SETTINGS = LogSettings(segment_bytes=200_000, retention_bytes=1_000_000, retention_ms=-1)

def write(directory, acks, seed):
    random = Random(seed)
    files = OsFiles(directory)
    while True:
        log = PartitionLog(files, "t-0", SETTINGS)
        log.open(0)
        os.write(acks, struct.pack(">q", -1 - log.log_end_offset))
        for _ in range(random.randrange(2000)):
            offset = log.log_end_offset
            records = [Record(number, 1000, b"key", b"%020d" % (offset + number) * 10) for number in range(1 + offset % 3)]
            answer = log.append(encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=offset), now_ms=1000)
            os.write(acks, struct.pack(">q", answer.last_offset))
            if log.rolled_segments:
                Thread(target=log.sync_rolled).start()
            else:
                for path in log.expire_segments(1000):
                    files.remove(path)
        log.close(clean=random.random() < 0.5)

for line in sys.stdin:
    directory, acks, seed = line.split()
    child = os.fork()
    if child == 0:
        write(directory, os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND), int(seed))
    print(child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


@pytest.fixture
def writers() -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-c", WRITERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def live_and_die(writers: Any, directory: Path, acks: Path, random: Random) -> tuple[int, int]:
    """One life: the end of the log as the writer found it, and the last offset that it was told is kept."""
    acks.unlink(missing_ok=True)
    print(directory, acks, random.randrange(1_000_000), file=writers.stdin, flush=True)
    pid = int(writers.stdout.readline())
    answers = random.randint(1, 120)  # a slow machine kills later, not before there is something to lose
    while not acks.exists() or acks.stat().st_size < answers * ACKNOWLEDGED.size:
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.04))
    os.kill(pid, signal.SIGKILL)
    assert writers.stdout.readline() == "dead\n"
    told = [number for (number,) in ACKNOWLEDGED.iter_unpack(acks.read_bytes())]
    found = -1 - told[0]
    return found, max([found - 1, *told])


def test_acknowledged_records_survive_two_hundred_kills(writers: "subprocess.Popen[str]", tmp_path: Path) -> None:
    random = Random(1)
    acknowledged, checked = -1, 0
    for _ in range(KILLS):
        found, last = live_and_die(writers, tmp_path / "data", tmp_path / "acks", random)
        assert found > acknowledged, "the next life begins behind everything that was acknowledged"
        assert last >= acknowledged
        acknowledged = last
        log = PartitionLog(OsFiles(tmp_path / "data"), "t-0", SETTINGS)
        log.open(0)
        assert log.log_end_offset > acknowledged
        start = max(checked, log.log_start_offset)
        offset = start
        for record in log.read_records(start):
            assert (record.offset, record.value) == (offset, b"%020d" % offset * 10), "no offset twice, none left out"
            offset += 1
        assert offset == log.log_end_offset
        checked = offset
        log.close(clean=False)
    whole = [record.offset for record in log.read_records(log.log_start_offset)]
    assert whole == list(range(log.log_start_offset, log.log_end_offset))
    assert acknowledged > 10_000
    assert log.log_start_offset > 0, "old segments went, too"
