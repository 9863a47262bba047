"""The compiled backend of a coordinator's loading: a log reduced in compiled code that releases the GIL.

It implements the protocol of groups/log/reducer.py, with the reference backend's results. Python code runs once per buffer, per
compressed batch, per group record and per distinct string; commits become Python objects at the end of the log, those that are left, in
bulk. Importing it loads NumPy and Numba (the extra `arrow`).
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import islice, repeat

import numpy as np

from ottla.coordinator.loading import Buffer, ScannedBatches, skipped_record
from ottla.groups.log.compiled_loading import kernels, tables
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, decode, encode_key
from ottla.groups.log.reducer import LoadedGroups
from ottla.groups.log.replayed_state import ReplayedState
from ottla.protocol.arrow import batch_scan as batches
from ottla.protocol.arrow.batch_scan import check, expand
from ottla.protocol.arrow.primitives import Array
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.record_codec import NO_ID
from ottla.protocol.records.batch import CODEC_MASK, HEADER_BYTES, encode_batch

GROUP_BYTES_MAX = 1024 * 1024
"""Most plain record bytes that go through the kernel together, but for one larger batch."""
ROWS_MIN = 1024
"""Rows that a table begins with; it grows by GROWTH."""
ARENA_BYTES_MIN = 32 * 1024
GROWTH = 4
NEVER_MS = -1

_NOTHING_MARKED = np.empty(0, np.int64)


class CompiledBatches:
    """The whole batches at the start of a buffer (protocol: `ScannedBatches`)."""

    __slots__ = ("buffer", "next_batch_bytes", "size_bytes", "source", "special", "table")

    def __init__(self, buffer: Buffer) -> None:
        # Read-only on purpose: one type of array means one compilation of each kernel.
        self.buffer = memoryview(buffer).toreadonly().cast("B")
        self.source = np.frombuffer(self.buffer, np.uint8)
        # Memory that is never written to is never allocated by the system: space for the smallest batches is free.
        table = np.empty((len(self.buffer) // HEADER_BYTES + 1, batches.TABLE_COLUMNS), np.int64)
        count, self.size_bytes, self.next_batch_bytes, status = batches.scan(self.source, _NOTHING_MARKED, table)
        check(status)
        self.table = table[:count]
        self.special: Sequence[int] = self.table[self.table[:, batches.SPECIAL] != 0, batches.AT].tolist()


class CompiledReducer:
    """The compiled backend (protocol: `Reducer`)."""

    def __init__(self) -> None:
        self._strings = _Rows(tables.STRING_COLUMNS)
        self._commits = _Rows(tables.COMMIT_COLUMNS)
        self._arena = np.empty(ARENA_BYTES_MIN, np.uint8)
        self._rest = np.empty((ROWS_MIN, kernels.REST_COLUMNS), np.int64)
        self._state = np.zeros(kernels.STATE_WORDS, np.int64)
        # Clients choose the names: they must not be able to choose their places in the tables too.
        self._state[kernels.SEED] = secrets.randbits(63)
        self._durable = ReplayedState()
        self._problems: list[str] = []

    def scan(self, buffer: Buffer) -> CompiledBatches:
        return CompiledBatches(buffer)

    def apply(self, scanned: ScannedBatches, *, skipped: Set[int], from_offset: int) -> None:
        assert isinstance(scanned, CompiledBatches), "scanned batches belong to the backend that scanned them"
        is_read = scanned.table[:, batches.LAST_OFFSET] >= from_offset
        if skipped:
            is_read &= ~np.isin(scanned.table[:, batches.AT], list(skipped))
        for plain, table, wanted in _groups(scanned, is_read):
            self._reduce(plain, table, wanted)

    def _reduce(self, plain: Array, table: Array, is_read: Array) -> None:
        state = self._state
        state[kernels.CURSOR_BATCH], state[kernels.CURSOR_AT] = 0, -1
        status = kernels.FULL
        while status == kernels.FULL:
            strings = (self._strings.slots, self._strings.rows, self._arena)
            status = kernels.reduce_batches(plain, table, is_read, strings, (self._commits.slots, self._commits.rows), self._rest, state)
            is_rest_full = int(state[kernels.REST]) == len(self._rest)
            if state[kernels.REST]:
                self._take_rest(memoryview(plain))
            if status == kernels.FULL:
                self._make_space(is_rest_full)
        check(status)

    def _make_space(self, is_rest_full: bool) -> None:
        """For one more record, where the kernel found none; the records left to the plain decoder have been taken by now."""
        strings, arena_bytes, commits = self._state[: tables.COMMITS + 1].tolist()
        if strings > len(self._strings.rows) - kernels.STRINGS_A_RECORD_MAX:
            self._strings.grow(strings)
        elif commits == len(self._commits.rows):
            self._commits.grow(commits)
        elif not is_rest_full:
            self._arena = _grown(self._arena, arena_bytes)

    def _take_rest(self, plain: memoryview) -> None:
        """The records that are no sound commits, in their order: group records, and unknown or damaged ones."""
        rows = self._rest[: int(self._state[kernels.REST])].tolist()
        self._state[kernels.REST] = 0
        for key_at, key_bytes, value_at, value_bytes, offset in rows:
            key = bytes(plain[key_at : key_at + key_bytes]) if key_bytes >= 0 else None
            value = bytes(plain[value_at : value_at + value_bytes]) if value_bytes >= 0 else None
            try:
                record = decode(key, value)
            except PeerError as error:
                self._problems.append(skipped_record(offset, error))
                continue
            assert isinstance(record, GroupMetadataRecord), "the kernel and the plain decoder do not agree"
            self._durable.apply(record)

    def finish(self) -> LoadedGroups:
        commits = self._commits.rows[: int(self._state[tables.COMMITS])]
        commits = commits[commits[:, tables.IS_THERE] != 0]
        if len(commits):
            self._build(commits)
        return LoadedGroups(self._durable, int(self._state[kernels.UNKNOWN]), tuple(self._problems))

    def _build(self, commits: Array) -> None:
        """Python objects for the commits that are left, those of one group's topic together."""
        pairs = commits[:, tables.GROUP] << 32 | commits[:, tables.TOPIC]
        order = np.argsort(pairs, kind="stable")
        commits, pairs = commits[order], pairs[order]
        starts = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1])))
        sizes = np.diff(np.append(starts, len(pairs))).tolist()
        texts = self._texts(commits)
        # Lazily, and in C: a value is made when its dictionary takes it.
        entries = zip(commits[:, tables.PARTITION].tolist(), self._values(commits, texts), strict=True)
        offsets = self._durable.offsets
        names = commits[starts][:, (tables.GROUP, tables.TOPIC)].tolist()
        for (group, topic), size in zip(names, sizes, strict=True):
            offsets.setdefault(texts[group], {})[texts[topic]] = dict(islice(entries, size))

    def _values(self, commits: Array, texts: list[str]) -> Iterator[OffsetValue]:
        numbers = [commits[:, column].tolist() for column in (tables.OFFSET, tables.LEADER_EPOCH, tables.COMMITTED_MS)]
        metadata = map(texts.__getitem__, commits[:, tables.METADATA].tolist())
        expires: Iterable[int | None] = repeat(None)
        if (commits[:, tables.EXPIRES_MS] != NEVER_MS).any():
            expires = [None if at_ms == NEVER_MS else at_ms for at_ms in commits[:, tables.EXPIRES_MS].tolist()]
        topic_ids: Iterable[bytes] = repeat(NO_ID)
        if (commits[:, tables.TOPIC_ID] != tables.FREE).any():
            numbered = {number: self._bytes_of(number) for number in np.unique(commits[:, tables.TOPIC_ID]).tolist()}
            topic_ids = map(numbered.__getitem__, commits[:, tables.TOPIC_ID].tolist())
        offsets, leader_epochs, committed_ms = numbers
        fields = zip(offsets, leader_epochs, metadata, committed_ms, expires, topic_ids, strict=False)
        return map(partial(tuple.__new__, OffsetValue), fields)

    def _bytes_of(self, topic_id: int) -> bytes:
        if topic_id == tables.FREE:
            return NO_ID
        start, length = self._strings.rows[topic_id, [tables.STRING_START, tables.STRING_LENGTH]].tolist()
        return self._arena[start : start + length].tobytes()

    def _texts(self, commits: Array) -> list[str]:
        """The strings that these commits have as group, topic or metadata, by number; the others are empty."""
        is_needed = np.zeros(int(self._state[tables.STRINGS]), bool)
        for column in (tables.GROUP, tables.TOPIC, tables.METADATA):
            is_needed[commits[:, column]] = True
        data = self._arena[: int(self._state[tables.ARENA_BYTES])].tobytes()
        texts = [""] * len(is_needed)
        needed = np.flatnonzero(is_needed)
        spans = self._strings.rows[needed][:, (tables.STRING_START, tables.STRING_LENGTH)].tolist()
        for number, (start, length) in zip(needed.tolist(), spans, strict=True):
            texts[number] = data[start : start + length].decode()
        return texts


class _Rows:
    """The rows of a hash table and the slots that lead to them; there are at least twice as many slots."""

    def __init__(self, columns: int) -> None:
        self.rows: Array = np.empty((ROWS_MIN, columns), np.int64)
        self.slots: Array = np.full(2 * ROWS_MIN, tables.FREE, np.int64)

    def grow(self, used: int) -> None:
        self.rows = _grown(self.rows, used)
        self.slots = np.empty(GROWTH * len(self.slots), np.int64)
        tables.fill_slots(self.slots, self.rows, used)


def _grown(array: Array, used: int) -> Array:
    larger = np.empty((GROWTH * len(array), *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


def _groups(scanned: CompiledBatches, is_read: Array) -> Iterator[tuple[Array, Array, Array]]:
    """The batches in groups for the kernel: (plain record bytes, table, which are read). What is compressed is expanded here."""
    if not (is_read & (scanned.table[:, batches.ATTRIBUTES] & CODEC_MASK != 0)).any():
        yield scanned.source, scanned.table, is_read
        return
    table = scanned.table[is_read]
    first, at, parts = 0, 0, list[Buffer]()
    columns = table[:, (batches.START, batches.END, batches.ATTRIBUTES)].tolist()
    for number, (start, end, attributes) in enumerate(columns):
        parts.append(expand(scanned.buffer[start:end], attributes))
        table[number, batches.START], table[number, batches.END] = at, at + len(parts[-1])
        at += len(parts[-1])
        if at >= GROUP_BYTES_MAX or number + 1 == len(table):
            yield np.frombuffer(b"".join(parts), np.uint8), table[first : number + 1], np.ones(number + 1 - first, bool)
            first, at, parts = number + 1, 0, []


def load_kernels() -> None:
    """Call every kernel once: compiled once on a machine, which takes seconds, and read from the cache later."""
    commits = [OffsetRecord(group_id="g", topic="t", partition=number, value=None) for number in range(ROWS_MIN + 1)]
    reducer = CompiledReducer()
    scanned = reducer.scan(encode_batch([Record(number, 0, encode_key(commit), None) for number, commit in enumerate(commits)]))
    reducer.apply(scanned, skipped=frozenset(), from_offset=0)
