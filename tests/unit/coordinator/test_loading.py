"""Loading a coordinator's log: which batches count, which damage is reported, and that several threads may load."""

import gc
from threading import Thread

import pytest

from ottla.broker.coordination.coordinators import GcPause
from ottla.coordinator.loading import ReducerFactory, load
from ottla.groups.log.arrow.loading import CompiledReducer
from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.groups.log.replayed_state import LoadedGroups, ReferenceReducer, ReplayedState
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, seal
from tests.support.kit.faulty_files import overwrite

COMMIT, ABORT, OTHER = b"\0\0\0\1", b"\0\0\0\0", b"\0\0\0\2"
MARKER_VALUE = bytes(6)


def commit(topic: str, offset: int) -> Record:
    """A commit of group g, for partition 0 of a topic."""
    record = OffsetRecord(group_id="g", topic=topic, partition=0, value=OffsetValue(offset, -1, "", 7))
    return Record(0, 0, encode_key(record), encode_value(record))


class Log:
    """Takes commits as `topic`, within a transaction as `(producer, topic)`, its end as `(producer, COMMIT)`; offsets count from 1."""

    def __init__(self, settings: LogSettings | None = None) -> None:
        self.files = MemoryFiles()
        self.log = PartitionLog(self.files, "t-0", settings or LogSettings())
        self.log.open(0)
        self._sequences: dict[int, int] = {}
        self._commits = 0

    def add(self, *entries: str | tuple[int, str | bytes]) -> None:
        for entry in entries:
            if isinstance(entry, str):
                self.log.append_records([self._next(entry)], now_ms=0)
                continue
            producer, what = entry
            if isinstance(what, bytes):
                batch = encode_batch([Record(0, 0, what, MARKER_VALUE)], producer_id=producer, producer_epoch=0,
                                     is_transactional=True, is_control=True)  # fmt: skip
            else:
                sequence = self._sequences.get(producer, 0)
                self._sequences[producer] = sequence + 1
                batch = encode_batch([self._next(what)], producer_id=producer, producer_epoch=0,
                                     base_sequence=sequence, is_transactional=True)  # fmt: skip
            self.log.append(batch, now_ms=0, from_client=False)

    def _next(self, topic: str) -> Record:
        self._commits += 1
        return commit(topic, self._commits)

    def loaded(self, backend: ReducerFactory[ReplayedState]) -> dict[str, int]:
        """The committed offset of each topic, which says which of the entries counted last (from 1)."""
        return offsets(load(self.log, backend))


def offsets(loaded: LoadedGroups) -> dict[str, int]:
    return {topic: found[0].offset for topic, found in loaded.replayed.offsets.get("g", {}).items()}


backends = pytest.mark.parametrize("backend", [ReferenceReducer, CompiledReducer])


@backends
@pytest.mark.parametrize(
    ("entries", "counted"),
    [
        ((), {}),
        (("a", "b"), {"a": 1, "b": 2}),
        (((1, "x"), (1, COMMIT)), {"x": 1}),
        (((1, "x"), (1, ABORT), "a"), {"a": 2}),
        (("a", (1, "x"), "b"), {"a": 1, "b": 3}),
        # by offset, not by when the transaction ended: a later commit of a group wins over one that lay in an open transaction
        (((1, "x"), "x", (1, COMMIT)), {"x": 2}),
        (("x", (1, "x"), (1, COMMIT)), {"x": 2}),
        (("x", (1, "x"), (1, ABORT)), {"x": 1}),
        (((1, "x"), (1, ABORT), (1, "y"), (1, COMMIT)), {"y": 2}),
        (((1, "x"), (1, COMMIT), (1, "y")), {"x": 1}),
        # others that ended behind the first open transaction
        (((1, "x"), (2, "y"), (2, COMMIT), (3, "z"), (3, ABORT), "a"), {"y": 2, "a": 4}),
        (((1, "x"), (2, "y"), (2, ABORT), (2, "z"), (2, COMMIT)), {"z": 3}),
    ],
)
def test_what_counts(backend: ReducerFactory[ReplayedState], entries, counted: dict[str, int]) -> None:
    log = Log()
    log.add(*entries)
    assert log.loaded(backend) == counted


@backends
def test_every_segment_is_read_from_the_start_of_the_log(backend: ReducerFactory[ReplayedState]) -> None:
    log = Log(LogSettings(segment_bytes=200))
    log.add("a", "b", "c", "d", "e", (1, "x"), "f", (2, "y"), (2, COMMIT), "g")
    assert len(log.files.list("t-0")) > 6
    assert log.loaded(backend) == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 7, "y": 8, "g": 9}
    log.log.delete_records(2)
    assert "a" not in log.loaded(backend)
    assert "b" not in log.loaded(backend)


@backends
@pytest.mark.parametrize(("position", "byte"), [(70, 0xFF), (8, 0x7F), (16, 1)])
def test_damage_is_reported_with_the_name_of_the_file(backend: ReducerFactory[ReplayedState], position: int, byte: int) -> None:
    log = Log()
    log.add("a", "b")
    overwrite(log.files, "t-0/00000000000000000000.log", position, bytes([byte]))
    with pytest.raises(StorageError, match=r"t-0/00000000000000000000\.log cannot be read: it is damaged"):
        log.loaded(backend)


@backends
def test_a_batch_with_a_right_checksum_and_wrong_records_is_damage_too(backend: ReducerFactory[ReplayedState]) -> None:
    log = Log()
    batch = encode_batch([commit("a", 1)])
    batch[61] = 0x7E  # the length of its first record
    seal(batch)
    log.log.append(batch, now_ms=0, from_client=False)
    with pytest.raises(StorageError, match=r"00000000000000000000\.log cannot be read: it is damaged"):
        log.loaded(backend)


@backends
def test_a_marker_behind_an_open_transaction_that_cannot_be_read_is_damage(backend: ReducerFactory[ReplayedState]) -> None:
    log = Log()
    log.add((1, "x"))
    log.log.append(encode_batch([Record(0, 0, b"", MARKER_VALUE)], is_transactional=True, is_control=True), now_ms=0, from_client=False)
    with pytest.raises(StorageError, match="names no type"):
        log.loaded(backend)


def test_the_collector_is_paused_until_the_last_holder_leaves() -> None:
    pause, states = GcPause(), []
    assert gc.isenabled()
    with pause.held():
        states.append(gc.isenabled())
        with pause.held():
            states.append(gc.isenabled())
        states.append(gc.isenabled())
    assert (states, gc.isenabled()) == ([False] * 3, True)
    gc.disable()
    try:
        with pause.held():
            pass
        assert not gc.isenabled(), "it was disabled before"
    finally:
        gc.enable()


@backends
def test_any_thread_may_load(backend: ReducerFactory[ReplayedState]) -> None:
    log = Log()
    log.add("a", (1, "x"), (1, COMMIT))
    found: list[dict[str, int]] = []
    threads = [Thread(target=lambda: found.append(log.loaded(backend))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"a": 1, "x": 2}] * 3
