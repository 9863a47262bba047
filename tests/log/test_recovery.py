"""Opening after an end in order, after a crash, and after another process changed files: what is kept, what is cut, what is rebuilt."""

import struct
import zlib
from pathlib import Path
from random import Random

import pytest

from ottla.log.append import Appended
from ottla.log.checkpoints import EpochStart
from ottla.log.file_system import MemoryFiles
from ottla.log.files import OsFiles
from ottla.log.index import AbortedTransaction, decode_transactions, encode_transactions
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_state import ProducerStates
from ottla.log.recovery import (
    Loss,
    ProducerRecovery,
    Recovered,
    all_below_start,
    gaps,
    opening_refused,
    recover,
    shorter_than_known,
    start_unknown_to,
    whole_batch_behind,
)
from ottla.log.segment import Segment
from ottla.log.settings import LogSettings
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, read_header
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.end_markers import encode_end_marker
from tests.support.kit.faulty_files import overwrite

NOW_MS = 1_000_000
SETTINGS = LogSettings(segment_bytes=2000, index_interval_bytes=300)
COMPACTED = LogSettings(segment_bytes=2000, index_interval_bytes=300, cleanup_policy="compact")


def batch_of(number: int) -> bytearray:
    records = [Record(each, NOW_MS + 10 * number + each, b"k", b"%04d" % number * 20) for each in range(3)]
    return encode_batch(records, producer_id=9, producer_epoch=0, base_sequence=3 * number)


def written(batches: int = 40, *, clean: bool = False, flushed: int = 0) -> MemoryFiles:
    """A log of several segments; synced up to `flushed` batches."""
    files = MemoryFiles()
    log = PartitionLog(files, "t-0", SETTINGS)
    log.open(NOW_MS)
    for number in range(batches):
        assert isinstance(log.append(batch_of(number), now_ms=NOW_MS), Appended)
        if number + 1 == flushed:
            log.flush()
    log.close(clean=clean)
    return files


def open_it(files: MemoryFiles, settings: LogSettings = SETTINGS) -> Recovered:
    return recover(files, "t-0", settings, now_ms=NOW_MS)


def names(files: MemoryFiles, suffix: str) -> list[int]:
    return [int(name[:20]) for name in files.list("t-0") if name.endswith(suffix)]


def path(base: int, suffix: str = ".log") -> str:
    return f"t-0/{base:020d}{suffix}"


def contents(files: MemoryFiles) -> dict[str, bytes]:
    return {name: files.read_all(f"t-0/{name}") for name in files.list("t-0")}


BATCH_BYTES = len(batch_of(0))
BASES = names(written(), ".log")


def test_the_log_used_here_has_several_segments() -> None:
    assert len(BASES) >= 4
    assert BASES[1] % 3 == 0


def test_nothing_there_is_an_empty_log() -> None:
    found = open_it(MemoryFiles())
    assert (found.segments, found.end_offset, found.clean, found.bytes_cut) == ([], 0, True, 0)


def test_after_an_end_in_order_only_the_tail_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(clean=True)
    before = contents(files)
    monkeypatch.setattr("ottla.log.segment.crc_is_valid", lambda *_: pytest.fail("a checksum was computed"))
    found = open_it(files)
    assert (found.clean, found.end_offset, found.bytes_cut, len(found.producers)) == (True, 120, 0, 1)
    assert [segment.base_offset for segment in found.segments] == BASES
    assert contents(files) == before


def test_after_a_kill_everything_written_is_there_and_indexes_are_made() -> None:
    files, closed = written(clean=False), written(clean=True)
    found = open_it(files)
    assert (found.clean, found.end_offset, found.bytes_cut) == (False, 120, 0)
    assert [segment.base_offset for segment in found.undurable] == BASES[:-1]
    found.segments[-1].write_indexes(final=True)  # those of the last one wait until it is full or closed
    for base in BASES:
        for suffix in (".log", ".index", ".timeindex"):
            assert files.read_all(path(base, suffix)) == closed.read_all(path(base, suffix))
    assert found.producers.encode() == ProducerStates.decode(closed.read_all(path(120, ".snapshot"))).encode()  # type: ignore[union-attr]


@pytest.mark.parametrize("missing", [2, 8, 20, 60, 61, 62, BATCH_BYTES - 1])
@pytest.mark.parametrize("zeros", [False, True])
def test_a_torn_last_batch_is_cut(missing: int, zeros: bool) -> None:
    files = written()
    log = files.open(path(BASES[-1]))
    size = log.size
    log.truncate(size - missing)
    if zeros:
        log.truncate(size)  # the length reached the disk, the bytes did not
    found = open_it(files)
    assert (found.clean, found.end_offset) == (False, 117)
    assert found.bytes_cut == BATCH_BYTES - (0 if zeros else missing)
    assert files.size(path(BASES[-1])) == size - BATCH_BYTES


def test_damage_in_the_middle_ends_the_log_there() -> None:
    files = written()
    overwrite(files, path(BASES[1]), 2 * BATCH_BYTES + 100, b"\xff")
    found = open_it(files)
    assert found.end_offset == BASES[1] + 6
    assert names(files, ".log") == names(files, ".index") == names(files, ".timeindex") == BASES[:2]
    assert found.producers.encode() != ProducerStates().encode()
    # and it stays so
    again = open_it(files)
    assert (again.end_offset, again.bytes_cut) == (BASES[1] + 6, 0)


MAGIC_AT, CRC_AT, RECORD_AT = 16, 17, 100


@pytest.mark.parametrize("at", [MAGIC_AT, CRC_AT, RECORD_AT])
@pytest.mark.parametrize("flushed", [0, 40])
def test_after_a_kill_the_last_segment_is_checked_batch_by_batch_also_what_was_synced(at: int, flushed: int) -> None:
    """As Kafka's LogSegment.recover, which reads from the segment of the recovery point on."""
    files = written(flushed=flushed)
    overwrite(files, path(BASES[-1]), 2 * BATCH_BYTES + at, b"\x01")
    found = recover(files, "t-0", SETTINGS, now_ms=NOW_MS, recovery_point=3 * flushed)
    end_offset = BASES[-1] + 6
    assert (found.clean, found.end_offset) == (False, end_offset)
    assert any(
        f"damaged at byte {2 * BATCH_BYTES}" in each and f"from offset {end_offset} on are lost" in each for each in sentences(found)
    )
    assert {loss.was_durable for loss in found.losses} == {flushed > 0}


def test_after_an_end_in_order_damaged_records_are_left_to_readers() -> None:
    """As in Kafka: nothing that was closed in order is read again."""
    files = written(clean=True)
    overwrite(files, path(BASES[-1]), 2 * BATCH_BYTES + RECORD_AT, b"\x01")
    found = open_it(files)
    assert (found.clean, found.end_offset, found.bytes_cut, found.losses) == (True, 120, 0, [])


def test_after_an_end_in_order_a_last_batch_that_is_none_is_cut() -> None:
    """Kafka takes it for a batch of another format; here, nothing is appended behind what cannot be read."""
    files = written(clean=True)
    overwrite(files, path(BASES[-1]), 3 * BATCH_BYTES + MAGIC_AT, b"\x01")
    found = open_it(files)
    assert (found.clean, found.end_offset, found.bytes_cut) == (False, 117, BATCH_BYTES)
    assert any(f"damaged at byte {3 * BATCH_BYTES}" in each for each in sentences(found))


def records_in(files: MemoryFiles) -> dict[str, bytes]:
    """Everything but the indexes, which are made from the records again."""
    return {name: data for name, data in contents(files).items() if not name.endswith("index")}


def sentences(found: Recovered) -> list[str]:
    return [loss.sentence for loss in found.losses]


def test_what_is_cut_is_logged_with_file_byte_and_offset() -> None:
    files = written()
    files.open(path(BASES[-1])).truncate(files.size(path(BASES[-1])) - 5)
    (torn,) = open_it(files).losses
    place = (117 - BASES[-1]) // 3 * BATCH_BYTES
    assert torn.sentence == (
        f"{BATCH_BYTES - 5} bytes of a torn tail were cut; the log ends at offset 117 ({path(BASES[-1])}, from byte {place} on)"
    )
    assert not torn.was_durable
    overwrite(files, path(BASES[1]), 2 * BATCH_BYTES + 100, b"\xff")
    (damaged,) = open_it(files).losses
    assert damaged.sentence.startswith(f"{path(BASES[1])} is damaged at byte {2 * BATCH_BYTES}: ")
    assert f"from offset {BASES[1] + 6} on are lost, among them whole batches from offset {BASES[1] + 9} on" in damaged.sentence
    assert f"the files from {path(BASES[2])} to {path(BASES[-1])}" in damaged.sentence


@pytest.mark.parametrize("what", ["damage", "damage in the last batch", "gap", "emptied", "shortened", "no file", "no directory"])
def test_a_log_that_must_not_lose_anything_is_refused_and_left_as_it_is(what: str) -> None:
    files = written(clean=True) if what in ("emptied", "shortened") else written()
    match what:
        case "damage":
            overwrite(files, path(BASES[-1]), 100, b"\xff")
        case "damage in the last batch":
            overwrite(files, path(BASES[-1]), files.size(path(BASES[-1])) - 10, b"\xff")
        case "gap":
            for suffix in (".log", ".index", ".timeindex"):
                files.remove(path(BASES[1], suffix))
        case "emptied":
            files.open(path(BASES[-1])).truncate(0)
        case "shortened":
            files.open(path(BASES[-1])).truncate(BATCH_BYTES)
        case "no file":
            for name in files.list("t-0"):
                files.remove(f"t-0/{name}")
        case "no directory":
            files.remove_directory("t-0")
    before = records_in(files)
    # Offset 120 is what the checkpoint of the last clean end, or of the last minute, says; a gap is logged without.
    recovery_point = 0 if what in ("gap", "damage") else 120
    with pytest.raises(StorageError, match=r"(lost|missing).*Nothing was changed: restore the data directory from a copy"):
        recover(files, "t-0", SETTINGS, now_ms=NOW_MS, recovery_point=recovery_point, refuses_losses=True)
    assert records_in(files) == before


def test_a_write_that_a_crash_cut_short_is_no_loss_that_is_refused() -> None:
    files = written()
    files.open(path(BASES[-1])).truncate(files.size(path(BASES[-1])) - 5)
    found = recover(files, "t-0", SETTINGS, now_ms=NOW_MS, recovery_point=117, refuses_losses=True)
    assert (found.end_offset, len(found.losses)) == (117, 1)


@pytest.mark.parametrize("clean", [False, True])
def test_a_log_that_ends_before_what_was_durable_says_what_is_lost(clean: bool) -> None:
    files = written(clean=clean)
    files.open(path(BASES[-1])).truncate(BATCH_BYTES)
    found = recover(files, "t-0", SETTINGS, now_ms=NOW_MS, recovery_point=120)
    assert found.end_offset == BASES[-1] + 3
    assert sentences(found) == [
        f"t-0 ends at offset {BASES[-1] + 3}, but was synced up to offset 120 (according to recovery-point-offset-checkpoint or a .snapshot"
        f" file): offsets {BASES[-1] + 3} to 119 are lost"
    ]


def test_a_segment_missing_in_the_middle_is_logged_after_a_clean_end() -> None:
    files = written(clean=True)
    for suffix in (".log", ".index", ".timeindex"):
        files.remove(path(BASES[1], suffix))
    found = recover(files, "t-0", SETTINGS, now_ms=NOW_MS, recovery_point=120)
    assert (found.clean, found.end_offset) == (True, 120)
    (sentence,) = sentences(found)
    assert sentence.startswith(f"offsets {BASES[1]} to {BASES[2] - 1} are missing between {path(BASES[0])} and {path(BASES[2])}")
    assert sentences(recover(files, "t-0", COMPACTED, now_ms=NOW_MS, recovery_point=120)) == []


def test_a_start_that_only_the_checkpoint_knows_is_logged() -> None:
    files = written(clean=True)
    found = recover(files, "t-0", SETTINGS, now_ms=NOW_MS, recovery_point=120, log_start_offset=BASES[1] + 1)
    assert names(files, ".log") == BASES[1:]
    (sentence,) = sentences(found)
    assert f"which no other file of t-0 has: offsets 0 to {BASES[1]} are no longer read" in sentence


def test_a_start_behind_the_end_is_logged() -> None:
    files = written(clean=True)
    found = recover(files, "t-0", SETTINGS, now_ms=NOW_MS, recovery_point=120, log_start_offset=500)
    assert (found.start_offset, found.end_offset) == (500, 500)
    assert any(f"t-0 ends at offset 120: offsets {BASES[-1]} to 119 were removed" in sentence for sentence in sentences(found))


def test_a_changed_offset_is_damage_although_no_checksum_shows_it() -> None:
    files = written()
    overwrite(files, path(BASES[1]), 2 * BATCH_BYTES, struct.pack(">q", BASES[1] + 7))
    assert open_it(files).end_offset == BASES[1] + 6


def test_what_a_snapshot_vouches_for_is_not_read_again_and_never_removed() -> None:
    files = written(flushed=40)
    assert names(files, ".snapshot") == BASES[1:]
    overwrite(files, path(BASES[0]), 100, b"\xff")
    found = open_it(files)
    assert (found.clean, found.end_offset, found.undurable) == (False, 120, [])
    assert [segment.base_offset for segment in found.segments] == BASES


def test_a_hole_between_segments_ends_the_log_unless_it_was_compacted() -> None:
    for settings, end in ((SETTINGS, BASES[1]), (COMPACTED, 120)):
        files = written()
        for suffix in (".log", ".index", ".timeindex"):
            files.remove(path(BASES[1], suffix))
        assert open_it(files, settings).end_offset == end


def test_segments_that_overlap_end_the_log() -> None:
    files = written()
    files.replace(path(BASES[1] - 1), files.read_all(path(BASES[1])))
    assert open_it(files).end_offset == BASES[1]
    assert names(files, ".log") == [0]


@pytest.mark.parametrize("damage", ["missing", "torn", "zeros"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_that_were_lost_after_an_end_in_order(suffix: str, damage: str) -> None:
    files = written(clean=True)
    before = contents(files)
    for base in BASES:
        match damage:
            case "missing":
                files.remove(path(base, suffix))
            case "torn":
                files.open(path(base, suffix)).append(b"123")
            case "zeros":
                files.open(path(base, suffix)).append(bytes(24))
    log = PartitionLog(files, "t-0", SETTINGS)
    log.open(NOW_MS)
    assert [record.offset for record in log.read_records(0)] == list(range(120))
    assert log.timestamps().first_at(NOW_MS + 100) == (NOW_MS + 100, 30)
    assert contents(files) == before


@pytest.mark.parametrize("damage", [None, b"", b"junk", bytes(20)])
def test_the_epochs_are_read_from_the_batches_when_their_checkpoint_is_lost(damage: bytes | None) -> None:
    files = MemoryFiles()
    log = PartitionLog(files, "t-0", SETTINGS)
    for epoch in (2, 2, 5):
        log.leader_epoch = epoch
        log.append(batch_of(epoch), now_ms=NOW_MS, from_client=False)
    log.close()
    whole = files.read_all("t-0/leader-epoch-checkpoint")
    files.remove("t-0/leader-epoch-checkpoint")
    if damage is not None:
        files.replace("t-0/leader-epoch-checkpoint", damage)
    assert open_it(files).epochs == [(2, 0), (5, 6)]
    assert files.read_all("t-0/leader-epoch-checkpoint") == whole


def test_epochs_behind_the_cut_are_forgotten() -> None:
    files = MemoryFiles()
    log = PartitionLog(files, "t-0", SETTINGS)
    for epoch in (0, 1):
        log.leader_epoch = epoch
        log.append(batch_of(epoch), now_ms=NOW_MS)
    log.close(clean=False)
    files.open(path(0)).truncate(BATCH_BYTES + 5)
    assert open_it(files).epochs == [(0, 0)]
    assert files.read_all("t-0/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_a_damaged_snapshot_is_no_evidence() -> None:
    files = written(clean=True)
    overwrite(files, path(120, ".snapshot"), 10, b"\xff")
    found = open_it(files)
    assert (found.clean, found.end_offset) == (False, 120)
    assert found.producers.encode() == open_it(written()).producers.encode()
    assert names(files, ".snapshot") == BASES[1:]


def test_a_log_shorter_than_its_snapshot_goes_back_to_an_older_one() -> None:
    files = written(clean=True)
    files.open(path(BASES[-1])).truncate(5)
    found = open_it(files)
    assert (found.clean, found.end_offset) == (False, BASES[-1])
    expected = written(BASES[-1] // 3)
    assert found.producers.encode() == open_it(expected).producers.encode()
    assert names(files, ".snapshot") == BASES[1:]


def test_without_a_snapshot_that_fits_producers_are_read_from_the_start() -> None:
    files = written(10, clean=True)
    for base in names(files, ".snapshot")[:-1]:
        files.remove(path(base, ".snapshot"))
    last = names(files, ".log")[-1]
    files.open(path(last)).truncate(0)
    found = open_it(files)
    assert found.end_offset == last
    assert found.producers.encode() == open_it(written(last // 3)).producers.encode()
    assert names(files, ".snapshot") == []


def test_what_crashes_leave_half_made_is_removed() -> None:
    files = written(clean=True)
    before = contents(files)
    for name in (path(0, ".log.cleaned"), path(7, ".log.deleted"), path(500, ".index"), path(500, ".timeindex"), "t-0/x.tmp"):
        files.open(name).append(b"half")
    files.replace(path(4, ".snapshot"), ProducerStates().encode())
    found = open_it(files)
    assert found.clean
    assert contents(files) == before


def test_files_with_other_names_are_let_alone() -> None:
    files = written(clean=True)
    for name in ("t-0/readme.log", "t-0/+0000000000000000001.log", "t-0/00000000000000000000.other"):
        files.open(name).append(b"x")
    before = contents(files)
    assert open_it(files).clean
    assert contents(files) == before


def test_messages_of_older_formats_are_not_taken_for_damage() -> None:
    files = written(1, clean=True)
    body = struct.pack(">bbqi", 1, 0, NOW_MS, -1) + struct.pack(">i", 1) + b"v"
    old = struct.pack(">qiI", 3, len(body) + 4, zlib.crc32(body)) + body
    files.open(path(0)).append(old * 5)
    before = contents(files)
    with pytest.raises(StorageError, match="format 1, from before Kafka"):
        open_it(files)
    assert contents(files) == before


def test_silent_producers_do_not_survive_the_restart() -> None:
    files = written(clean=True)
    assert len(recover(files, "t-0", SETTINGS, now_ms=NOW_MS + 86_400_000 + 1000).producers) == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_junk_behind_the_log_is_cut_and_nothing_else(seed: int) -> None:
    random = Random(seed)
    files = written(random.randint(1, 12))
    last = names(files, ".log")[-1]
    good = files.read_all(path(last))
    files.open(path(last)).append(random.randbytes(random.randint(1, 500)))
    found = open_it(files)
    assert files.read_all(path(last)) == good
    assert found.bytes_cut > 0


def test_an_opening_that_fails_gives_its_files_back(tmp_path: Path) -> None:
    class Bad(OsFiles):
        def read_all(self, path: str) -> bytes:
            if path.endswith(".snapshot"):
                raise StorageError(f"cannot read {path}")
            return super().read_all(path)

    log = PartitionLog(OsFiles(tmp_path), "t-0", SETTINGS)
    log.open(NOW_MS)
    for number in range(20):
        log.append(encode_batch([Record(0, NOW_MS + number, b"k", b"v" * 100)]), now_ms=NOW_MS)
    log.close()
    files = Bad(tmp_path)
    for _ in range(3):
        with pytest.raises(StorageError, match="snapshot"):
            PartitionLog(files, "t-0", SETTINGS).open(NOW_MS)
    assert not files.opened


def batch(offset: int, value: bytes = b"v") -> bytes:
    return bytes(encode_batch([Record(offset, 5, b"k", value)], base_offset=offset))


def behind(data: bytes, position: int, offset: int) -> int | None:
    header = whole_batch_behind(lambda at, length: data[at : at + length], position, len(data), offset)
    return None if header is None else header.base_offset


SIZE = len(batch(0))


@pytest.mark.parametrize("at", [0, 8, 16, 17, 30, SIZE - 1])
def test_a_whole_batch_is_found_behind_any_damage_of_the_one_before(at: int) -> None:
    data = bytearray(batch(3) + batch(4) + batch(5))
    data[at] ^= 0x55
    assert behind(bytes(data), 0, 3) == 4


@pytest.mark.parametrize("cut", [1, 20, SIZE - 1])
def test_nothing_is_found_behind_a_write_that_was_cut_short(cut: int) -> None:
    data = batch(3) + batch(4)[:-cut]
    assert behind(data, SIZE, 4) is None
    assert behind(data + bytes(cut), SIZE, 4) is None


def test_batches_with_offsets_from_before_are_not_what_followed() -> None:
    assert behind(bytes(10) + batch(2) + batch(3), 0, 3) is None


def test_a_start_that_the_log_knows_is_no_loss() -> None:
    assert start_unknown_to([EpochStart(0, 0)], "t-0", 0, 0) is None
    assert start_unknown_to([EpochStart(0, 7)], "t-0", 0, 7) is None
    loss = start_unknown_to([EpochStart(0, 0)], "t-0", 0, 7)
    assert loss is not None
    assert "log-start-offset-checkpoint lets the log start at offset 7" in loss.sentence
    assert "offsets 0 to 6 are no longer read" in loss.sentence


def test_what_the_checkpoints_contradict_is_logged_in_offsets() -> None:
    assert "synced up to offset 9" in (durable := shorter_than_known("t-0", 4, 9, 12)).sentence
    assert "offsets 4 to 11 are lost" in durable.sentence
    assert (durable.was_durable, shorter_than_known("t-0", 4, 0, 12).was_durable) == (True, False)
    assert "offsets 2 to 4 were removed, and the log continues at offset 50" in all_below_start("t-0", 2, 5, 50).sentence
    assert "nothing was changed" in str(opening_refused("t-0", Loss(True, "it is gone"))).lower()
    assert isinstance(opening_refused("t-0", Loss(True, "it is gone")), StorageError)


def segments(files: MemoryFiles, *bases: int, records: int = 3) -> list[Segment]:
    """Segments of `records` batches each, with their indexes."""
    files.make_directory("t-0")
    made = []
    for base in bases:
        segment = Segment(files, "t-0", base, index_interval_bytes=SIZE, made_ms=5)
        segment.create()
        for offset in range(base, base + records):
            segment.append(batch(offset))
            segment.note(offset, 5, SIZE)
        segment.write_indexes(final=True)
        segment.close()
        made.append(segment)
    return made


def test_segments_that_follow_each_other_have_no_gap() -> None:
    files = MemoryFiles()
    assert list(gaps(files, segments(files, 0, 3, 6))) == []


def test_a_missing_segment_is_logged_with_its_offsets() -> None:
    files = MemoryFiles()
    (loss,) = gaps(files, segments(files, 0, 6))
    assert loss.was_durable
    assert loss.sentence.startswith("offsets 3 to 5 are missing between t-0/00000000000000000000.log and t-0/00000000000000000006.log")


def test_an_emptied_segment_is_a_gap_too() -> None:
    files = MemoryFiles()
    segments(files, 0, 3, 6)
    files.open("t-0/00000000000000000003.log").truncate(0)
    files.open("t-0/00000000000000000003.index").truncate(0)
    found = [Segment(files, "t-0", base, index_interval_bytes=SIZE, made_ms=5) for base in (0, 3, 6)]
    (loss,) = gaps(files, found)
    assert loss.sentence.startswith("offsets 3 to 5 are missing")


@pytest.mark.parametrize("damage", ["missing", "zeros"])
def test_an_index_that_leads_nowhere_says_nothing(damage: str) -> None:
    files = MemoryFiles()
    made = segments(files, 0, 6)
    files.remove("t-0/00000000000000000000.index")
    if damage == "zeros":
        files.open("t-0/00000000000000000000.index").append(b"\xff" * 8)
    assert list(gaps(files, made)) == []


class Case:
    """A segment whose producers 0 to 4 have appended one record each, and the snapshots after 2 and 4 of them."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_directory("t-0")
        self.segment = Segment(self.files, "t-0", 0, index_interval_bytes=4096, made_ms=0)
        self.segment.create()
        states = ProducerStates()
        for number in range(5):
            if number in (2, 4):
                self.files.replace(f"t-0/{number:020d}.snapshot", states.encode())
            batch = encode_batch([Record(number, 1, None, b"x")], base_offset=number, producer_id=number, producer_epoch=0, base_sequence=0)
            self.append(batch, number)
            states.note(read_header(batch))
        self.recovery = ProducerRecovery(self.files, "t-0")

    def append(self, batch: bytes | bytearray, last_offset: int) -> None:
        self.segment.append(batch)
        self.segment.note(last_offset, 1, len(batch))

    def load(self, at_most: int | None = None) -> tuple[int, int]:
        self.recovery.load_snapshot(self.files.list("t-0"), at_most=at_most)
        return self.recovery.snapshot_offset, len(self.recovery.producers)

    def snapshots(self) -> list[int]:
        return sorted(int(name[:20]) for name in self.files.list("t-0") if name.endswith(".snapshot"))


@pytest.fixture
def case() -> Case:
    return Case()


def test_the_newest_whole_snapshot_counts_and_those_above_it_are_removed(case: Case) -> None:
    assert (case.load(), case.snapshots()) == ((4, 4), [2, 4])
    assert (case.load(at_most=3), case.snapshots()) == ((2, 2), [2])
    case.files.replace("t-0/00000000000000000009.snapshot", b"damaged")
    assert (case.load(), case.snapshots()) == ((2, 2), [2])
    case.recovery.clear()
    assert (case.recovery.snapshot_offset, len(case.recovery.producers)) == (-1, 0)


def test_only_batches_behind_the_snapshot_are_added(case: Case) -> None:
    case.load(at_most=2)
    for position, header in case.segment.batches():
        case.recovery.add(case.segment, position, header)
    assert len(case.recovery.producers) == 5
    assert case.recovery.producers.ends()[4].last_offset == 4


def test_a_log_that_ends_before_its_snapshot_goes_back_to_an_older_one(case: Case) -> None:
    case.load()
    case.recovery.end_at([case.segment], [case.segment], 3, 0)
    assert (case.recovery.snapshot_offset, case.snapshots()) == (2, [2])
    assert len(case.recovery.producers) == 5, "what the segment holds is read again from there"


def test_transaction_indexes_say_what_the_markers_say(case: Case) -> None:
    index = "t-0/00000000000000000000.txnindex"
    stale = AbortedTransaction(8, 0, 77, 78)
    case.files.open(index).append(encode_transactions([stale]))
    assert case.recovery.load_transactions(case.files.list("t-0"))
    of_producer = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    case.append(encode_batch([Record(5, 1, None, b"x")], base_offset=5, base_sequence=0, **of_producer), 5)  # type: ignore[arg-type]
    key, value = encode_end_marker(EndMarker(ControlType.ABORT, 0))
    case.append(encode_batch([Record(6, 1, key, value)], base_offset=6, is_control=True, **of_producer), 6)  # type: ignore[arg-type]
    case.recovery.aborted.clear()
    for position, header in case.segment.batches():
        case.recovery.add(case.segment, position, header)
    case.recovery.end_at([case.segment], [case.segment], 7, 0)
    assert decode_transactions(case.files.read_all(index)) == [AbortedTransaction(9, 5, 6, 7)]
    case.recovery.end_at([case.segment], [case.segment], 6, 0)
    assert not case.files.exists(index), "its marker was cut"
    case.files.open(index).append(b"damaged")
    assert not case.recovery.load_transactions(case.files.list("t-0"))


def test_snapshots_that_belong_to_no_segment_are_removed(case: Case) -> None:
    case.files.replace("t-0/00000000000000000003.snapshot", b"")
    case.load()
    case.recovery.remove_stray_snapshots([0, 2])
    assert case.snapshots() == [2, 4]
