"""The reducer of a coordinator's log: replays all records in bulk, of each key only the last one, to the state of `ReplayedState.apply`.

A log is reduced piece by piece. Two backends implement the protocol with equal results: the reference one here and the compiled one in
`columnar`. The caller decides which batches count (of transactions, only committed ones).
"""

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final, NamedTuple, Protocol

from ottla.core.errors import PeerError
from ottla.core.groups.log.records import OffsetRecord, OffsetValue, decode, decode_offset_value
from ottla.core.groups.log.replayed_state import ReplayedState
from ottla.core.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_is_valid,
    iter_batch,
    read_header,
    split_batches,
)

Buffer = bytes | bytearray | memoryview
_OFFSET_MAX: Final = 2**63 - 1


class LoadedGroups(NamedTuple):
    """`unknown` counts records of unknown types; `problems` names the skipped records and why, in offset order."""

    replayed: ReplayedState
    unknown: int
    problems: tuple[str, ...]


class ScannedBatches(Protocol):
    """The complete batches at the start of a buffer, with headers read and checksums verified."""

    @property
    def size_bytes(self) -> int:
        """The end of the last complete batch; 0 if there is none."""
        ...

    @property
    def next_batch_bytes(self) -> int:
        """The size of the incomplete batch that follows; 0 if its size is not in the buffer."""
        ...

    @property
    def special(self) -> Sequence[int]:
        """Positions of control batches and of batches in transactions."""
        ...


class Reducer(Protocol):
    """Reduces one log, on one thread. `scan` and `apply` raise PeerError for a damaged batch."""

    def scan(self, buffer: Buffer) -> ScannedBatches:
        """Scan the batches of a buffer, which must not change until they have been applied."""
        ...

    def apply(self, scanned: ScannedBatches, *, skipped: Set[int], from_offset: int) -> None:
        """Apply the batches scanned last, except those at the positions `skipped` and those that end before `from_offset`."""
        ...

    def finish(self) -> LoadedGroups:
        """The state that all applied batches replay to. Ends the reducer's use."""
        ...


ReducerFactory = Callable[[], Reducer]
"""Creates the reducer of one log."""


def skipped_record(offset: int, error: PeerError) -> str:
    """The text for a skipped record in `LoadedGroups.problems`."""
    return f"the record at offset {offset} is passed over: {error}"


class ReferenceReducer:
    """The reference backend, which needs no compiler."""

    def __init__(self) -> None:
        self._replayed = ReplayedState()
        self._latest: dict[tuple[str, str, int], OffsetValue] = {}
        self._targets: dict[bytes, tuple[str, str, int]] = {}
        self._unknown = 0
        self._problems: list[str] = []

    def scan(self, buffer: Buffer) -> "ReferenceBatches":
        return ReferenceBatches(buffer)

    def apply(self, scanned: ScannedBatches, *, skipped: Set[int], from_offset: int) -> None:
        assert isinstance(scanned, ReferenceBatches), "scanned batches belong to the backend that scanned them"
        for position, header in scanned.batches:
            if position not in skipped and header.last_offset >= from_offset:
                for offset, _, key, value, _ in iter_batch(scanned.buffer, position, verify_crc=False):
                    self._apply_record(offset, key, value)

    def _apply_record(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        # Most keys occur again: their bytes are decoded once, and then only values are.
        target = self._targets.get(key) if key is not None else None
        try:
            if target is None:
                target = self._target(key, value)
            if target is not None:
                if value is None:
                    self._latest.pop(target, None)
                else:
                    self._latest[target] = decode_offset_value(value)
        except PeerError as error:
            self._problems.append(skipped_record(offset, error))

    def _target(self, key: bytes | None, value: bytes | None) -> tuple[str, str, int] | None:
        """Group, topic and partition of an offset's key; None for other records, which are applied at once."""
        found = decode(key, None)
        if isinstance(found, OffsetRecord):
            assert key is not None
            target = self._targets[key] = (found.group_id, found.topic, found.partition)
            return target
        if found is None:
            self._unknown += 1
        else:
            record = decode(key, value)
            assert record is not None
            self._replayed.apply(record)
        return None

    def finish(self) -> LoadedGroups:
        offsets = self._replayed.offsets
        for (group_id, topic, partition), value in self._latest.items():
            offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = value
        return LoadedGroups(self._replayed, self._unknown, tuple(self._problems))


class ReferenceBatches:
    """The complete batches at the start of a buffer (protocol: `ScannedBatches`)."""

    __slots__ = ("batches", "buffer", "next_batch_bytes", "size_bytes", "special")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.batches = list(_valid_batches(buffer))
        self.size_bytes = 0
        if self.batches:
            position, header = self.batches[-1]
            self.size_bytes = position + header.size_bytes
        left = memoryview(buffer)[self.size_bytes : self.size_bytes + HEADER_BYTES]
        self.next_batch_bytes = read_header(left).size_bytes if len(left) == HEADER_BYTES else 0
        self.special: Sequence[int] = [at for at, header in self.batches if header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)]


def _valid_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    for position, header in split_batches(buffer):
        if header.last_offset > _OFFSET_MAX:
            raise PeerError("a batch header with an impossible length, offset or count")
        if not crc_is_valid(buffer, position, header.size_bytes):
            raise PeerError(f"the batch at offset {header.base_offset} does not match its checksum")
        yield position, header
