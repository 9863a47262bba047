"""The log on a disk that loses power: seeded lives, each with several crashes, failing writes and syncs, and flipped bits.

After every crash: what was flushed and not deleted is there, byte by byte; what is there is a whole prefix of what was appended; nothing is
half there; no offset is given twice; indexes, epochs and producers agree with the batches. `make soak` runs thousands of lives.
"""

import copy
import os
from collections.abc import Iterator
from random import Random

import pytest

from ottla.log.append import Appended
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import decode_batch, encode_batch, read_header, split_batches
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.end_markers import encode_end_marker
from tests.support.kit.faulty_files import FaultyFiles, overwrite

NOW_MS = 1_000_000
SETTINGS = LogSettings(segment_bytes=3000, index_interval_bytes=400, retention_ms=-1, retention_bytes=9000)
SEEDS = int(os.environ.get("OTTLA_CRASH_SEEDS", "750"))
CHUNK = 250
STEPS = 60


class Life:
    """One log through one seed. `batches`: what was appended and, after a crash, found again, by base offset.

    `flushed`: the offset below which everything must stay; `start`: the offset below which everything may go. `checkpoint`: what the
    directory's checkpoint files say of it, if they were written.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.files = FaultyFiles(MemoryFiles(), self.random)
        self.batches: dict[int, bytes] = {}
        self.flushed = 0
        self.start = 0
        self.checkpoint: tuple[int, int] | None = None
        self.unanswered: list[bytes] = []
        self.failed = False
        self.times_are_known = self.epochs_are_known = True
        self.trace: list[object] = []
        self.open()

    def open(self) -> None:
        self.log = PartitionLog(self.files, "t-0", SETTINGS)
        start, recovery_point = self.checkpoint or (0, None)
        self.log.open(NOW_MS, log_start_offset=start, recovery_point=recovery_point)
        self.failed = False

    def append(self) -> None:
        count = self.random.randint(1, 4)
        records = [Record(number, NOW_MS + self.random.randrange(1000), b"k", self.random.randbytes(50)) for number in range(count)]
        batch = encode_batch(records, producer_id=5, producer_epoch=0, base_sequence=self.log.log_end_offset)
        try:
            answer = self.log.append(batch, now_ms=NOW_MS)
        except StorageError:
            # It failed, and perhaps could not be undone; nothing came after it then. It may turn out to be there, but only whole.
            self.unanswered.append(bytes(batch))
            return
        self.unanswered = []
        assert isinstance(answer, Appended), answer
        self.batches[answer.base_offset] = bytes(batch)

    def flush(self) -> None:
        try:
            self.log.flush()
        except StorageError:
            self.failed = True
            return
        if not self.failed:
            self.flushed = self.log.log_end_offset

    def flush_while_appending(self) -> None:
        """Group commit: what comes while the disk works is not covered."""
        try:
            flush = self.log.begin_flush()
        except StorageError:
            return
        if flush is None:
            return
        self.append()
        try:
            flush.run()
        except StorageError as error:
            self.failed = True
            self.log.finish_flush(flush, error)
            return
        self.log.finish_flush(flush)
        if not self.failed:
            self.flushed = max(self.flushed, flush.end_offset)

    def sync_rolled(self) -> None:
        try:
            self.log.sync_rolled()
        except StorageError:
            self.failed = True

    def delete_records(self) -> None:
        self._lose_beginning(lambda: self.log.delete_records(self.random.randint(self.log.log_start_offset, self.log.log_end_offset)))

    def expire(self) -> None:
        def expire() -> None:
            deleted = self.log.expire_segments(NOW_MS)
            if self.log.rolled_segments:
                self.log.sync_rolled()
                deleted += self.log.expire_segments(NOW_MS)
            if deleted:
                self.files.sync_directory("t-0")  # file systems keep the order of renames; here only a sync does
            for path in deleted:
                if self.random.random() < 0.5:
                    self.files.remove(path)

        self._lose_beginning(expire)

    def _lose_beginning(self, act: object) -> None:
        try:
            act()  # type: ignore[operator]
        except StorageError:
            self.failed = True
        self.start = max(self.start, self.log.log_start_offset)

    def write_checkpoint(self) -> None:
        self.checkpoint = self.log.log_start_offset, self.log.recovery_point

    def fault(self) -> None:
        match self.random.randrange(3):
            case 0:
                self.files.fail_next_write(after_bytes=self.random.randrange(200))
            case 1:
                self.files.fail_next_sync()
            case 2:
                self.files.truncate_fails = True

    def flip(self) -> None:
        """A bit flips in a file beside the log: nothing that was acknowledged may be lost by it.

        Times and epochs have no checksum: what they say may be wrong from then on.
        """
        names = [name for name in self.files.list("t-0") if name.endswith((".index", ".snapshot", ".timeindex", "-checkpoint"))]
        names = [name for name in names if self.files.size(f"t-0/{name}")]
        if names:
            self.restart()
            name = self.random.choice(names)
            if self.files.exists(f"t-0/{name}") and self.files.size(f"t-0/{name}"):
                self.log.close(clean=False)
                self.files.flip_bit(f"t-0/{name}")
                self.times_are_known = self.times_are_known and not name.endswith(".timeindex")
                self.epochs_are_known = self.epochs_are_known and not name.endswith("-checkpoint")
                self.open_again()

    def restart(self) -> None:
        """In order; the faults that were waiting hit the closing."""
        try:
            self.log.close()
        except StorageError:
            self.log.close(clean=False)
        else:
            if not self.failed:
                self.flushed = self.log.log_end_offset
        self.files.heal()
        self.open_again()

    def crash(self) -> None:
        self.files.crash()
        self.open_again()

    def open_again(self) -> None:
        self.open()
        if self.log.log_start_offset > max(self.start, self.checkpoint[0] if self.checkpoint else 0):
            # The first segment's name was lost and a later one's was not. No flush ever promised anything: begin again.
            assert self.flushed <= self.start
            self.log.move_away("t-0.gone-delete")
            self.files.remove_directory("t-0.gone-delete")
            self.batches, self.unanswered, self.start, self.checkpoint, self.flushed = {}, [], 0, None, 0
            self.open()
        found = {read_header(batch).base_offset: batch for batch in stored(self.log, max(self.start, self.log.log_start_offset))}
        self.trace.append((self.log.log_start_offset, self.log.log_end_offset, len(found)))
        assert self.log.log_end_offset >= self.flushed, "what was flushed is there"
        known = {base: batch for base, batch in found.items() if base in self.batches and self.batches[base] == batch}
        beyond = [batch for base, batch in found.items() if base not in known]
        assert not beyond or (len(beyond) == 1 and beyond[0] in self.unanswered), "nothing was invented"
        expected = [
            base
            for base, batch in self.batches.items()
            if base >= self.start and base + read_header(batch).record_count <= self.log.log_end_offset
        ]
        assert [base for base in found if base >= self.start][: len(expected)] == expected, "what is there is a prefix of what was appended"
        self.batches, self.unanswered = found, []
        self.check_lookups()

    def check_lookups(self) -> None:
        start = max(self.start, self.log.log_start_offset)
        records = [record for batch in self.batches.values() for record in decode_batch(batch) if record.offset >= start]
        assert [record.offset for record in records] == list(range(start, self.log.log_end_offset)), "no offset twice, none left out"
        assert list(self.log.read_records(start)) == records
        if start == self.log.log_start_offset and self.times_are_known:
            for timestamp_ms in range(NOW_MS, NOW_MS + 1000, 250):
                late = [(record.timestamp_ms, record.offset) for record in records if record.timestamp_ms >= timestamp_ms]
                assert self.log.timestamps().first_at(timestamp_ms) == (late[0] if late else None)
        for offset in range(start, self.log.log_end_offset, 7):
            data = self.log.read(offset, 1)
            assert data
            ((_, header),) = split_batches(data)
            assert header.base_offset <= offset <= header.last_offset
        if records:
            # the producer's last batch is known again, and it goes on where the log ends
            again = bytearray([*self.batches.values()][-1])
            ((_, last),) = split_batches(again)
            again[:8] = bytes(8)
            answer = self.log.append(again, now_ms=NOW_MS)
            assert isinstance(answer, Appended)
            assert (answer.base_offset, answer.last_offset) == (last.base_offset, last.last_offset)
            assert not self.epochs_are_known or [epoch for epoch, _ in self.log.leader_epochs] == [0]

    def run(self) -> None:
        for _ in range(STEPS):
            rng = self.random.random()
            act = next(act for limit, act in self.ACTS if rng < limit)
            act(self)
            self.trace.append((act.__name__, self.log.log_start_offset, self.log.log_end_offset, self.flushed))
        self.crash()

    ACTS = (
        (0.62, append),
        (0.70, flush),
        (0.75, flush_while_appending),
        (0.78, sync_rolled),
        (0.81, delete_records),
        (0.84, expire),
        (0.87, write_checkpoint),
        (0.91, fault),
        (0.92, flip),
        (0.94, restart),
        (1.0, crash),
    )


def stored(log: PartitionLog, offset: int) -> Iterator[bytes]:
    """Every batch as it lies in the log, from the one that holds `offset` on. (Files of what was deleted may come back with a crash.)"""
    while offset < log.log_end_offset:
        data = log.read(offset, 2000)
        assert data
        for at, header in split_batches(data):
            yield data[at : at + header.size_bytes]
            offset = header.next_offset


@pytest.mark.parametrize("chunk", range(SEEDS // CHUNK))
def test_flushed_batches_survive_every_crash(chunk: int) -> None:
    survived = crashes = 0
    for seed in range(CHUNK * chunk, CHUNK * chunk + CHUNK):
        life = Life(seed)
        try:
            life.run()
        except BaseException:
            print(f"seed {seed}", *life.trace, sep="\n")
            raise
        survived += life.flushed
        crashes += life.files.crashes
    assert survived > 10 * CHUNK, "the simulation must get somewhere"
    assert crashes > 3 * CHUNK, "and it must crash"


def flip_in_batch(life: Life, base_offset: int) -> int:
    """Flip a bit of a batch in its log file, but for base offset and leader epoch, which no checksum covers; where the file ends.

    Lengths and offsets in a header lead from batch to batch: where they are damaged, what follows in the same file may be out of reach:
    it is refused, or, as in Kafka, the next file is read instead.
    """
    for name in life.files.list("t-0"):
        if name.endswith(".log"):
            path = f"t-0/{name}"
            data = life.files.read_all(path)
            headers = list(split_batches(data))
            for at, header in headers:
                if header.base_offset == base_offset:
                    place = at + life.random.choice([*range(8, 12), *range(16, header.size_bytes)])
                    overwrite(life.files, path, place, bytes([data[place] ^ 1 << life.random.randrange(8)]))
                    return headers[-1][1].next_offset
    raise AssertionError(f"no batch begins at {base_offset}")


def test_a_bit_that_flips_in_a_log_is_cut_or_reported_and_never_served() -> None:
    seen = set()
    for seed in range(600):
        life = Life(seed)
        for _ in range(25):
            life.random.choice([life.append, life.append, life.append, life.append, life.flush, life.sync_rolled])()
        durable_offset, end_offset, batches = life.log.recovery_point, life.log.log_end_offset, list(life.batches.values())
        life.log.close(clean=False)
        damaged = life.random.choice(batches)
        base_offset = read_header(damaged).base_offset
        out_of_reach = range(base_offset, flip_in_batch(life, base_offset))
        log = PartitionLog(life.files, "t-0", SETTINGS)
        opened = log.open(NOW_MS, recovery_point=durable_offset)
        if base_offset >= durable_offset:
            assert (log.log_end_offset, opened.bytes_cut > 0) == (base_offset, True), "cut there"
            seen.add("cut")
        elif log.log_end_offset < end_offset:
            # The segment that is being written to is read again from its beginning on, what is durable of it, too.
            assert (log.log_end_offset, opened.bytes_cut > 0) == (base_offset, True), "cut there, and reported"
            seen.add("cut below")
        else:
            seen.add("reported")
        for batch in batches:
            header = read_header(batch)
            if header.base_offset >= log.log_end_offset:
                break
            try:
                data = log.read(header.base_offset, 1)
                assert data is not None
                decode_batch(data)
            except (StorageError, PeerError):
                assert header.base_offset in out_of_reach, "the rest stays readable"
            else:
                is_next = header.base_offset in out_of_reach and bytes(data) in batches
                assert bytes(data) == batch or is_next, "nothing is invented"
    assert {"cut", "cut below", "reported"} <= seen


def test_a_bit_that_flips_in_a_transaction_index_loses_no_record() -> None:
    """Its numbers have no checksum: which transactions were aborted may be reported wrong, or be found again in the log."""

    def written() -> tuple[MemoryFiles, list[Record]]:
        files = MemoryFiles()
        log = PartitionLog(files, "t-0", SETTINGS)
        log.open(NOW_MS)
        marker = Record(0, NOW_MS, *encode_end_marker(EndMarker(ControlType.ABORT, 0)))
        for sequence in range(12):
            for batch in (
                encode_batch(
                    [Record(0, NOW_MS, b"k", bytes(300))], producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True
                ),
                encode_batch([marker], producer_id=7, producer_epoch=0, is_transactional=True, is_control=True),
            ):
                assert isinstance(log.append(batch, now_ms=NOW_MS, from_client=False), Appended)
        log.flush()
        records = list(log.read_records(0))
        log.close()
        return files, records

    sound, records = written()
    names = [name for name in sound.list("t-0") if name.endswith(".txnindex")]
    found_again = 0
    for name in names:
        for bit in range(8 * sound.size(f"t-0/{name}")):
            files = copy.deepcopy(sound)
            byte = files.read_all(f"t-0/{name}")[bit // 8]
            overwrite(files, f"t-0/{name}", bit // 8, bytes([byte ^ 1 << bit % 8]))
            log = PartitionLog(files, "t-0", SETTINGS)
            opened = log.open(NOW_MS)
            assert (list(log.read_records(0)), log.log_end_offset, log.last_stable_offset, opened.bytes_cut) == (records, 24, 24, 0)
            found_again += [each.first_offset for each in log.aborted_transactions(0, 24)] == [*range(0, 24, 2)]
    assert len(names) > 1
    assert found_again > 100


def test_a_seed_is_a_life() -> None:
    def trace() -> list[object]:
        life = Life(42)
        life.run()
        return life.trace

    assert trace() == trace()
