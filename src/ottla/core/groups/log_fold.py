"""What a coordinator's log comes to, without a coordinator: of each key the last record with a meaning, as `DurableState.apply` leaves it.

A lane folds the log piece by piece; two lanes keep this protocol with equal results: the plain one, here, and the columnar one. Which
batches count (of transactions, only the committed ones) is told to it; it reads no file and no transaction marker.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Final, NamedTuple, Protocol

from ottla.core.errors import PeerError
from ottla.core.groups.durable import DurableState
from ottla.core.groups.records import OffsetRecord, OffsetValue, decode, decode_offset_value
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
    """`unknown` counts the records of types not known here; `problems` says which records mean nothing, and why, by rising offset."""

    durable: DurableState
    unknown: int
    problems: tuple[str, ...]


class Piece(Protocol):
    """The whole batches at the start of a buffer, headers read and checksums checked."""

    @property
    def size_bytes(self) -> int:
        """Where the last whole batch ends; 0 when not even the first one is whole."""
        ...

    @property
    def next_batch_bytes(self) -> int:
        """The size of the batch behind them, of which only a part is in the buffer; 0 when not even its size is."""
        ...

    @property
    def special(self) -> Sequence[int]:
        """Where the control batches and those of transactions begin."""
        ...


class Fold(Protocol):
    """One log on its way into memory, for one thread. `survey` and `take` raise PeerError where a batch is damaged."""

    def survey(self, buffer: Buffer) -> Piece:
        """Look at the batches of a buffer, which must stay as it is until they have been taken."""
        ...

    def take(self, piece: Piece, *, skipped: Set[int], from_offset: int) -> None:
        """Fold the piece surveyed last, but for the batches at the positions `skipped` and those that end before `from_offset`."""
        ...

    def finish(self) -> LoadedGroups:
        """What all of it comes to; the fold is used up."""
        ...


Lane = Callable[[], Fold]
"""Makes a fold for one log."""


def passed_over(offset: int, error: PeerError) -> str:
    """A record without meaning, for `LoadedGroups.problems`."""
    return f"the record at offset {offset} is passed over: {error}"


class PlainFold:
    """The lane that always works."""

    def __init__(self) -> None:
        self._durable = DurableState()
        self._latest: dict[tuple[str, str, int], OffsetValue] = {}
        self._targets: dict[bytes, tuple[str, str, int]] = {}
        self._unknown = 0
        self._problems: list[str] = []

    def survey(self, buffer: Buffer) -> "PlainPiece":
        return PlainPiece(buffer)

    def take(self, piece: Piece, *, skipped: Set[int], from_offset: int) -> None:
        assert isinstance(piece, PlainPiece), "a piece belongs to the lane that surveyed it"
        for position, header in piece.batches:
            if position not in skipped and header.last_offset >= from_offset:
                for offset, _, key, value, _ in iter_batch(piece.buffer, position, verify_crc=False):
                    self._take_record(offset, key, value)

    def _take_record(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        # Most keys were seen before, and their bytes say what they say: only values are decoded then.
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
            self._problems.append(passed_over(offset, error))

    def _target(self, key: bytes | None, value: bytes | None) -> tuple[str, str, int] | None:
        """Whose offset the key is for; None for other records, which take effect at once."""
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
            self._durable.apply(record)
        return None

    def finish(self) -> LoadedGroups:
        offsets = self._durable.offsets
        for (group_id, topic, partition), value in self._latest.items():
            offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = value
        return LoadedGroups(self._durable, self._unknown, tuple(self._problems))


class PlainPiece:
    """The whole batches at the start of a buffer (protocol: `Piece`)."""

    __slots__ = ("batches", "buffer", "next_batch_bytes", "size_bytes", "special")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.batches = list(_sound(buffer))
        self.size_bytes = 0
        if self.batches:
            position, header = self.batches[-1]
            self.size_bytes = position + header.size_bytes
        left = memoryview(buffer)[self.size_bytes : self.size_bytes + HEADER_BYTES]
        self.next_batch_bytes = read_header(left).size_bytes if len(left) == HEADER_BYTES else 0
        self.special: Sequence[int] = [at for at, header in self.batches if header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)]


def _sound(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    for position, header in split_batches(buffer):
        if header.last_offset > _OFFSET_MAX:
            raise PeerError("a batch header with an impossible length, offset or count")
        if not crc_is_valid(buffer, position, header.size_bytes):
            raise PeerError(f"the batch at offset {header.base_offset} does not match its checksum")
        yield position, header
