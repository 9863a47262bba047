"""The log on a disk that loses power: hundreds of seeded lives, each with several crashes; and a real process that is really killed.

After every crash: what was flushed is there, byte by byte; what is there is a whole prefix of what was appended; nothing is half there;
indexes, epochs and producers agree with the batches.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import decode_batch, encode_batch, split_batches
from ottla.storage.files import MemoryFiles, OsFiles
from ottla.storage.partition_log import Appended, LogSettings, PartitionLog
from ottla.testing.faulty_files import FaultyFiles

NOW_MS = 1_000_000
SETTINGS = LogSettings(segment_bytes=3000, index_interval_bytes=400)
SEEDS = 300
STEPS = 60


class Life:
    """One log through one seed. `batches`: what was appended and, after a crash, found again; `flushed`: how many of them must stay."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.files = FaultyFiles(MemoryFiles(), self.random)
        self.batches: list[bytes] = []
        self.flushed = 0
        self.sequence = 0
        self.unanswered: list[bytes] = []
        self.failed = False
        self.trace: list[object] = []
        self.open()

    def open(self) -> None:
        self.log = PartitionLog(self.files, "t-0", SETTINGS)
        self.log.open(NOW_MS)
        self.failed = False

    def append(self) -> None:
        count = self.random.randint(1, 4)
        records = [Record(number, NOW_MS + self.random.randrange(1000), b"k", self.random.randbytes(50)) for number in range(count)]
        batch = encode_batch(records, producer_id=5, producer_epoch=0, base_sequence=self.sequence)
        try:
            answer = self.log.append(batch, now_ms=NOW_MS)
        except StorageError:
            # It failed, and perhaps could not be undone; nothing came after it then. It may turn out to be there, but only whole.
            self.unanswered.append(bytes(batch))
            return
        self.unanswered = []
        assert isinstance(answer, Appended), answer
        self.batches.append(bytes(batch))
        self.sequence += count

    def flush(self) -> None:
        try:
            self.log.flush()
        except StorageError:
            self.failed = True
            return
        if not self.failed:
            self.flushed = len(self.batches)

    def fault(self) -> None:
        match self.random.randrange(3):
            case 0:
                self.files.fail_next_write(after_bytes=self.random.randrange(200))
            case 1:
                self.files.fail_next_sync()
            case 2:
                self.files.truncate_fails = True

    def restart(self) -> None:
        """In order; the faults that were waiting hit the closing."""
        try:
            self.log.close()
        except StorageError:
            self.log.close(clean=False)
        else:
            self.flushed = len(self.batches) if not self.failed else self.flushed
        self.files.heal()
        self.open_again()

    def crash(self) -> None:
        self.files.crash()
        self.open_again()

    def open_again(self) -> None:
        self.open()
        if self.log.log_start_offset:
            # The first segment's name was lost and a later one's was not. No flush ever promised anything: begin anew.
            assert self.flushed == 0
            self.log.delete()
            self.batches, self.unanswered = [], []
        found = list(stored(self.log))
        self.trace.append((self.log.log_end_offset, len(found)))
        known, beyond = found[: len(self.batches)], found[len(self.batches) :]
        assert known == self.batches[: len(known)], "what is there is a prefix of what was appended"
        assert not beyond or (len(beyond) == 1 and beyond[0] in self.unanswered), "and nothing was invented"
        assert len(found) >= self.flushed, "what was flushed is there"
        self.batches, self.unanswered = found, []
        self.sequence = self.log.log_end_offset
        self.check_lookups()

    def check_lookups(self) -> None:
        records = [record for batch in self.batches for record in decode_batch(batch)]
        assert [record.offset for record in records] == list(range(self.log.log_end_offset)), "no offset twice, none left out"
        assert list(self.log.scan(0)) == records
        for timestamp_ms in range(NOW_MS, NOW_MS + 1000, 250):
            late = [(record.timestamp_ms, record.offset) for record in records if record.timestamp_ms >= timestamp_ms]
            assert self.log.offset_for_timestamp(timestamp_ms) == (late[0] if late else None)
        for offset in range(0, len(records), 7):
            data = self.log.read(offset, 1)
            assert data
            ((_, header),) = split_batches(data)
            assert header.base_offset <= offset <= header.last_offset
        if self.batches:
            # the producer's last batch is known again, and it goes on where the log ends
            ((_, last),) = split_batches(self.batches[-1])
            again = bytearray(self.batches[-1])
            again[:8] = bytes(8)
            assert self.log.append(again, now_ms=NOW_MS) == Appended(last.base_offset, last.last_offset, last.max_timestamp_ms, 0)
            assert self.log.leader_epochs == ((0, 0),)

    def run(self) -> None:
        for _ in range(STEPS):
            dice = self.random.random()
            act = next(act for limit, act in self.ACTS if dice < limit)
            act(self)
            self.trace.append((act.__name__, len(self.batches), self.flushed))
        self.crash()

    ACTS = ((0.70, append), (0.82, flush), (0.88, fault), (0.93, restart), (1.0, crash))


def stored(log: PartitionLog) -> Iterator[bytes]:
    """Every batch as it lies in the log."""
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, 2000)
        assert data
        for at, header in split_batches(data):
            yield data[at : at + header.size_bytes]
            offset = header.next_offset


@pytest.mark.parametrize("hundred", range(SEEDS // 100))
def test_flushed_batches_survive_every_crash(hundred: int) -> None:
    survived = cut = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        life = Life(seed)
        try:
            life.run()
        except BaseException:
            print(f"seed {seed}", *life.trace, sep="\n")
            raise
        survived += life.flushed
        cut += life.files.crashes
    assert survived > 500, "the simulation must get somewhere"
    assert cut > 300, "and it must crash"


def test_a_seed_is_a_life() -> None:
    def trace() -> list[object]:
        life = Life(42)
        life.run()
        return life.trace

    assert trace() == trace()


WRITER = """
import sys
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.storage.files import OsFiles
from ottla.storage.partition_log import LogSettings, PartitionLog

log = PartitionLog(OsFiles(sys.argv[1]), "t-0", LogSettings(segment_bytes=200_000))
opened = log.open(0)
print("opened", opened.end_offset, flush=True)
while True:
    offset = log.log_end_offset
    records = [Record(number, 1000, b"key", b"%020d" % (offset + number) * 10) for number in range(1 + offset % 3)]
    answer = log.append(encode_batch(records), now_ms=1000)
    print(answer.last_offset, flush=True)
"""


def test_acknowledged_records_survive_a_killed_process(tmp_path: Path) -> None:
    """SIGKILL at random moments: the operating system keeps what the process had written, so all that was acknowledged must be there."""
    random = Random(1)
    acknowledged = -1
    for _ in range(6):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        try:
            word, end = child.stdout.readline().split()
            assert word == "opened"
            assert int(end) > acknowledged
            time.sleep(random.uniform(0.01, 0.15))
        finally:
            os.kill(child.pid, signal.SIGKILL)
            output, _ = child.communicate()
        lines = output.split("\n")[:-1]  # the last may be cut
        acknowledged = int(lines[-1]) if lines else int(end) - 1
        log = PartitionLog(OsFiles(tmp_path), "t-0", LogSettings(segment_bytes=200_000))
        log.open(0)
        assert log.log_end_offset > acknowledged
        for offset, record in enumerate(log.scan(0)):
            assert (record.offset, record.value) == (offset, b"%020d" % offset * 10)
        log.close(clean=bool(random.randrange(2)))
    assert acknowledged > 1000
