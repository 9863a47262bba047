"""The compiled backend of a coordinator's loading: a log reduced to the latest commit of each key, without holding the GIL.

It implements the protocol of groups/log/replayed_state.py, with the reference backend's results. Python code runs once per buffer, per
compressed batch, per group record and per distinct string; commits become Python objects at the end of the log, those that are left, in
bulk. Importing it loads NumPy and Numba (the extra `arrow`).

The kernels accept what the plain codecs accept (protocol/records for records, groups/log/records.py for commits), and only read inside the
bounds of their arguments. What is no sound commit is left to the plain decoder, which decodes it or says what is wrong with it.

A reducer has two tables: distinct strings, and the latest commit of each key. Both are open hash tables of 64-bit words: slots (a power of
two of them, FREE or the number of a row) lead to rows, and rows are in the order of their first use. A string is a number from then on, so
that a key is three numbers. Arguments are addresses and are not checked: the caller has made space for one more row, and decides when a
table must grow.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import islice, repeat

import numpy as np

from ottla.coordinator.loading import Buffer, ScannedBatches, skipped_record
from ottla.groups.log.arrow.kernels import COMMIT, UNKNOWN_TYPE, UUID_BYTES, read_key, read_value
from ottla.groups.log.records import ConsumerGroupRecord, GroupMetadataRecord, OffsetRecord, decode, encode_key
from ottla.groups.log.replayed_state import LoadedGroups, ReplayedState
from ottla.protocol.arrow import batch_scan as batches
from ottla.protocol.arrow.batch_scan import (
    BAD_COUNT,
    BAD_RECORD,
    BAD_TIMESTAMP,
    BASE_MS,
    BASE_OFFSET,
    BYTES_LEFT_OVER,
    COUNT,
    END,
    LAST_OFFSET,
    OK,
    START,
    check,
    checked_sum,
    expand,
)
from ottla.protocol.arrow.primitives import (
    WORD_BYTES,
    Array,
    Int,
    address_of,
    byte_at,
    copy,
    head,
    headers,
    helper,
    jit,
    load,
    span,
    store,
    word_at,
)
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.record_codec import NO_ID
from ottla.protocol.records.batch import CODEC_MASK, HEADER_BYTES, RECORD_BYTES_MIN, encode_batch

FREE = -1
# Columns of a string: its hash, and where its bytes lie in the arena.
STRING_HASH, STRING_START, STRING_LENGTH = range(3)
STRING_COLUMNS = 3
# Columns of a commit. GROUP, TOPIC, METADATA and TOPIC_ID are strings; EXPIRES_MS is -1 for never. A tombstone leaves IS_THERE 0.
KEY_HASH, GROUP, TOPIC, PARTITION, OFFSET, LEADER_EPOCH, METADATA, COMMITTED_MS, EXPIRES_MS, TOPIC_ID, IS_THERE = range(11)
COMMIT_COLUMNS = 11
# What is used of the tables: rows of strings, bytes of the arena, rows of commits.
STRINGS, ARENA_BYTES, COMMITS = range(3)

# Two odd numbers with evenly distributed bits: those of MurmurHash3's last step.
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF = np.uint64(32)

# Where a call stopped, so that the next one continues there; and the counts that are kept between calls, after those of the tables.
CURSOR_BATCH, CURSOR_AT, CURSOR_LEFT, REST, UNKNOWN, SEED = range(3, 9)
STATE_WORDS = 9
# Columns of the records that are left to the plain decoder: where key and value lie (length -1: null), and the record's offset.
REST_KEY_AT, REST_KEY_LENGTH, REST_VALUE_AT, REST_VALUE_LENGTH, REST_OFFSET = range(5)
REST_COLUMNS = 5

FULL = -1
"""A table has no space for one more record: make space and call again."""
STRINGS_A_RECORD_MAX = 4

GROUP_BYTES_MAX = 1024 * 1024
"""Most plain record bytes that go through the kernel together, but for one larger batch."""
ROWS_MIN = 1024
"""Rows that a table begins with; it grows by GROWTH."""
ARENA_BYTES_MIN = 32 * 1024
GROWTH = 4
NEVER_MS = -1

_NOTHING_MARKED = np.empty(0, np.int64)


@helper
def _mixed(total: Int, word: Int) -> Int:
    total = (total ^ word) * _MIX_1
    total = (total ^ (total >> _HALF)) * _MIX_2
    return total ^ (total >> _HALF)


@helper
def _hash_of_bytes(at: Int, length: Int, seed: Int) -> Int:
    total = _mixed(np.uint64(seed), np.uint64(length))
    end = at + length
    while at + WORD_BYTES <= end:
        total = _mixed(total, word_at(at))
        at += WORD_BYTES
    rest = np.uint64(0)
    while at < end:
        rest = rest << np.uint64(8) | np.uint64(byte_at(at))
        at += 1
    return np.int64(_mixed(total, rest))


@helper
def _hash_of_key(group: Int, topic: Int, partition: Int, seed: Int) -> Int:
    total = _mixed(np.uint64(seed), np.uint64(group << 32 | topic))
    return np.int64(_mixed(total, np.uint64(partition)))


@helper
def _equal(one: Int, other: Int, length: Int) -> Int:
    """Whether so many bytes are the same at two addresses."""
    end = one + length
    while one + WORD_BYTES <= end and word_at(one) == word_at(other):
        one += WORD_BYTES
        other += WORD_BYTES
    while one < end and byte_at(one) == byte_at(other):
        one += 1
        other += 1
    return one == end


@jit
def string_of(tables: tuple[Int, ...], used_at: Int, at: Int, length: Int) -> Int:
    """The number of the string at an address, a new one when it is met for the first time.

    tables: (address of the slots, mask that makes a slot of a hash, address of the rows, address of the arena, seed of the hashes).
    """
    slots_at, mask, rows_at, arena_at, seed = tables
    hash_ = _hash_of_bytes(at, length, seed)
    slot = hash_ & mask
    row = load(slots_at, slot)
    while row != FREE:
        row_at = rows_at + row * (STRING_COLUMNS * WORD_BYTES)
        is_alike = load(row_at, STRING_HASH) == hash_ and load(row_at, STRING_LENGTH) == length
        if is_alike and _equal(arena_at + load(row_at, STRING_START), at, length):
            break
        slot = (slot + 1) & mask
        row = load(slots_at, slot)
    if row == FREE:
        row, start = load(used_at, STRINGS), load(used_at, ARENA_BYTES)
        row_at = rows_at + row * (STRING_COLUMNS * WORD_BYTES)
        store(row_at, STRING_HASH, hash_)
        store(row_at, STRING_START, start)
        store(row_at, STRING_LENGTH, length)
        copy(arena_at + start, at, length)
        store(slots_at, slot, row)
        store(used_at, STRINGS, row + 1)
        store(used_at, ARENA_BYTES, start + length)
    return row


@jit
def commit_of(tables: tuple[Int, ...], used_at: Int, group: Int, topic: Int, partition: Int) -> Int:
    """The address of a key's row; a new, empty one for a new key.

    tables: (address of the slots, mask that makes a slot of a hash, address of the rows, seed of the hashes).
    """
    slots_at, mask, rows_at, seed = tables
    hash_ = _hash_of_key(group, topic, partition, seed)
    slot = hash_ & mask
    row = load(slots_at, slot)
    while row != FREE:
        row_at = rows_at + row * (COMMIT_COLUMNS * WORD_BYTES)
        if load(row_at, PARTITION) == partition and load(row_at, GROUP) == group and load(row_at, TOPIC) == topic:
            break
        slot = (slot + 1) & mask
        row = load(slots_at, slot)
    if row == FREE:
        row = load(used_at, COMMITS)
        row_at = rows_at + row * (COMMIT_COLUMNS * WORD_BYTES)
        store(row_at, KEY_HASH, hash_)
        store(row_at, GROUP, group)
        store(row_at, TOPIC, topic)
        store(row_at, PARTITION, partition)
        store(row_at, IS_THERE, 0)
        store(slots_at, slot, row)
        store(used_at, COMMITS, row + 1)
    return rows_at + row * (COMMIT_COLUMNS * WORD_BYTES)


@jit
def fill_slots(slots: Array, rows: Array, count: Int) -> None:
    """Rebuild the slots for the first `count` rows, whose first column is the hash."""
    slots[:] = FREE
    slots_at, mask, rows_at, row_bytes = address_of(slots), slots.size - 1, address_of(rows), rows.shape[1] * WORD_BYTES
    for row in range(count):
        slot = load(rows_at + row * row_bytes, 0) & mask
        while load(slots_at, slot) != FREE:
            slot = (slot + 1) & mask
        store(slots_at, slot, row)


@helper
def _put(strings: tuple[Int, ...], row_at: Int, state_at: Int, value: tuple[Int, ...]) -> None:
    """Set a key's commit. value: as `read_value` returned it."""
    _, offset, epoch, metadata_at, metadata_bytes, committed_ms, expires_ms, topic_id_at = value
    store(row_at, OFFSET, offset)
    store(row_at, LEADER_EPOCH, epoch)
    store(row_at, METADATA, string_of(strings, state_at, metadata_at, metadata_bytes))
    store(row_at, COMMITTED_MS, committed_ms)
    store(row_at, EXPIRES_MS, expires_ms)
    store(row_at, TOPIC_ID, string_of(strings, state_at, topic_id_at, UUID_BYTES) if topic_id_at else np.int64(FREE))
    store(row_at, IS_THERE, 1)


@jit
def _reduce_record(
    at: Int, end: Int, offset: Int, plain_at: Int, strings: tuple[Int, ...], commits: tuple[Int, ...], rest_at: Int, state_at: Int
) -> Int:
    """Reduce the record whose key's length is at an address; whether it is well-formed."""
    key_at, key_bytes, at = span(at, end)
    if at < 0:
        return False
    value_at, value_bytes, at = span(at, end)
    if at < 0 or headers(at, end)[1] < 0:
        return False
    key = read_key(key_at, key_bytes)
    if key[0] == UNKNOWN_TYPE:
        store(state_at, UNKNOWN, load(state_at, UNKNOWN) + 1)
        return True
    if key[0] == COMMIT:
        value = read_value(value_at, value_at + value_bytes)
        if value_bytes < 0 or value[0]:
            group, topic = string_of(strings, state_at, key[1], key[2]), string_of(strings, state_at, key[3], key[4])
            row_at = commit_of(commits, state_at, group, topic, key[5])
            if value_bytes < 0:
                store(row_at, IS_THERE, 0)
            else:
                _put(strings, row_at, state_at, value)
            return True
    rows = load(state_at, REST)
    row_at = rest_at + rows * (REST_COLUMNS * WORD_BYTES)
    store(row_at, REST_KEY_AT, key_at - plain_at)
    store(row_at, REST_KEY_LENGTH, key_bytes)
    store(row_at, REST_VALUE_AT, value_at - plain_at)
    store(row_at, REST_VALUE_LENGTH, value_bytes)
    store(row_at, REST_OFFSET, offset)
    store(state_at, REST, rows + 1)
    return True


@jit
def reduce_batches(
    plain: Array, table: Array, is_read: Array, strings: tuple[Array, ...], commits: tuple[Array, ...], rest: Array, state: Array
) -> Int:
    """Reduce the records of the batches that are read, from where `state` says on; a status: FULL until all of them are reduced.

    plain: the bytes that START and END of `table` (columns: see batch_scan) point into. strings: (slots, rows, arena); commits:
    (slots, rows). rest: space for records that are left to the plain decoder; it must be emptied after every call.
    """
    slots, rows, arena = strings
    key_slots, key_rows = commits
    plain_at, state_at, rest_at, seed = address_of(plain), address_of(state), address_of(rest), state[SEED]
    string_tables = (address_of(slots), slots.size - 1, address_of(rows), address_of(arena), seed)
    key_tables = (address_of(key_slots), key_slots.size - 1, address_of(key_rows), seed)
    strings_max, commits_max = rows.shape[0] - STRINGS_A_RECORD_MAX, key_rows.shape[0]
    for b in range(state[CURSOR_BATCH], table.shape[0]):
        state[CURSOR_BATCH] = b
        if not is_read[b]:
            continue
        if state[CURSOR_AT] < 0:
            state[CURSOR_AT], state[CURSOR_LEFT] = table[b, START], table[b, COUNT]
            if table[b, COUNT] > (table[b, END] - table[b, START]) // RECORD_BYTES_MIN:
                return BAD_COUNT
        at, end, left = plain_at + state[CURSOR_AT], plain_at + table[b, END], state[CURSOR_LEFT]
        base, base_ms = table[b, BASE_OFFSET], table[b, BASE_MS]
        last_delta = table[b, LAST_OFFSET] - base
        while left > 0:
            delta_ms, offset_delta, key_at, record_end = head(at, end, last_delta)
            if key_at < 0:
                return BAD_RECORD
            space = arena.size - load(state_at, ARENA_BYTES)
            has_space = load(state_at, STRINGS) <= strings_max and load(state_at, COMMITS) < commits_max and space >= record_end - key_at
            if not has_space or load(state_at, REST) >= rest.shape[0]:
                state[CURSOR_AT], state[CURSOR_LEFT] = at - plain_at, left
                return FULL
            if not checked_sum(base_ms, delta_ms)[1]:
                return BAD_TIMESTAMP
            if not _reduce_record(key_at, record_end, base + offset_delta, plain_at, string_tables, key_tables, rest_at, state_at):
                return BAD_RECORD
            at = record_end
            left -= 1
        if at != end:
            return BYTES_LEFT_OVER
        state[CURSOR_AT] = -1
    state[CURSOR_BATCH] = 0
    return OK


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
        self._strings = _Rows(STRING_COLUMNS)
        self._commits = _Rows(COMMIT_COLUMNS)
        self._arena = np.empty(ARENA_BYTES_MIN, np.uint8)
        self._rest = np.empty((ROWS_MIN, REST_COLUMNS), np.int64)
        self._state = np.zeros(STATE_WORDS, np.int64)
        # Clients choose the names: they must not be able to choose their places in the tables too.
        self._state[SEED] = secrets.randbits(63)
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
        state[CURSOR_BATCH], state[CURSOR_AT] = 0, -1
        status = FULL
        while status == FULL:
            strings = (self._strings.slots, self._strings.rows, self._arena)
            status = reduce_batches(plain, table, is_read, strings, (self._commits.slots, self._commits.rows), self._rest, state)
            is_rest_full = int(state[REST]) == len(self._rest)
            if state[REST]:
                self._take_rest(memoryview(plain))
            if status == FULL:
                self._make_space(is_rest_full)
        check(status)

    def _make_space(self, is_rest_full: bool) -> None:
        """For one more record, where the kernel found none; the records left to the plain decoder have been taken by now."""
        strings, arena_bytes, commits = self._state[: COMMITS + 1].tolist()
        if strings > len(self._strings.rows) - STRINGS_A_RECORD_MAX:
            self._strings.grow(strings)
        elif commits == len(self._commits.rows):
            self._commits.grow(commits)
        elif not is_rest_full:
            self._arena = _grown(self._arena, arena_bytes)

    def _take_rest(self, plain: memoryview) -> None:
        """The records that are no sound commits, in their order: group records, and unknown or damaged ones."""
        rows = self._rest[: int(self._state[REST])].tolist()
        self._state[REST] = 0
        for key_at, key_bytes, value_at, value_bytes, offset in rows:
            key = bytes(plain[key_at : key_at + key_bytes]) if key_bytes >= 0 else None
            value = bytes(plain[value_at : value_at + value_bytes]) if value_bytes >= 0 else None
            try:
                record = decode(key, value)
            except PeerError as error:
                self._problems.append(skipped_record(offset, error))
                continue
            assert isinstance(record, GroupMetadataRecord | ConsumerGroupRecord), "the kernel and the plain decoder do not agree"
            self._durable.apply(record)

    def finish(self) -> LoadedGroups:
        commits = self._commits.rows[: int(self._state[COMMITS])]
        commits = commits[commits[:, IS_THERE] != 0]
        if len(commits):
            self._build(commits)
        return LoadedGroups(self._durable, int(self._state[UNKNOWN]), tuple(self._problems))

    def _build(self, commits: Array) -> None:
        """Python objects for the commits that are left, those of one group's topic together."""
        pairs = commits[:, GROUP] << 32 | commits[:, TOPIC]
        order = np.argsort(pairs, kind="stable")
        commits, pairs = commits[order], pairs[order]
        starts = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1])))
        sizes = np.diff(np.append(starts, len(pairs))).tolist()
        texts = self._texts(commits)
        # Lazily, and in C: a value is made when its dictionary takes it.
        entries = zip(commits[:, PARTITION].tolist(), self._values(commits, texts), strict=True)
        offsets = self._durable.offsets
        names = commits[starts][:, (GROUP, TOPIC)].tolist()
        for (group, topic), size in zip(names, sizes, strict=True):
            offsets.setdefault(texts[group], {})[texts[topic]] = dict(islice(entries, size))

    def _values(self, commits: Array, texts: list[str]) -> Iterator[OffsetValue]:
        numbers = [commits[:, column].tolist() for column in (OFFSET, LEADER_EPOCH, COMMITTED_MS)]
        metadata = map(texts.__getitem__, commits[:, METADATA].tolist())
        expires: Iterable[int | None] = repeat(None)
        if (commits[:, EXPIRES_MS] != NEVER_MS).any():
            expires = [None if at_ms == NEVER_MS else at_ms for at_ms in commits[:, EXPIRES_MS].tolist()]
        topic_ids: Iterable[bytes] = repeat(NO_ID)
        if (commits[:, TOPIC_ID] != FREE).any():
            numbered = {number: self._bytes_of(number) for number in np.unique(commits[:, TOPIC_ID]).tolist()}
            topic_ids = map(numbered.__getitem__, commits[:, TOPIC_ID].tolist())
        offsets, leader_epochs, committed_ms = numbers
        fields = zip(offsets, leader_epochs, metadata, committed_ms, expires, topic_ids, strict=False)
        return map(partial(tuple.__new__, OffsetValue), fields)

    def _bytes_of(self, topic_id: int) -> bytes:
        if topic_id == FREE:
            return NO_ID
        start, length = self._strings.rows[topic_id, [STRING_START, STRING_LENGTH]].tolist()
        return self._arena[start : start + length].tobytes()

    def _texts(self, commits: Array) -> list[str]:
        """The strings that these commits have as group, topic or metadata, by number; the others are empty."""
        is_needed = np.zeros(int(self._state[STRINGS]), bool)
        for column in (GROUP, TOPIC, METADATA):
            is_needed[commits[:, column]] = True
        data = self._arena[: int(self._state[ARENA_BYTES])].tobytes()
        texts = [""] * len(is_needed)
        needed = np.flatnonzero(is_needed)
        spans = self._strings.rows[needed][:, (STRING_START, STRING_LENGTH)].tolist()
        for number, (start, length) in zip(needed.tolist(), spans, strict=True):
            texts[number] = data[start : start + length].decode()
        return texts


class _Rows:
    """The rows of a hash table and the slots that lead to them; there are at least twice as many slots."""

    def __init__(self, columns: int) -> None:
        self.rows: Array = np.empty((ROWS_MIN, columns), np.int64)
        self.slots: Array = np.full(2 * ROWS_MIN, FREE, np.int64)

    def grow(self, used: int) -> None:
        self.rows = _grown(self.rows, used)
        self.slots = np.empty(GROWTH * len(self.slots), np.int64)
        fill_slots(self.slots, self.rows, used)


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
