"""What counts in a log: everything but the records of transactions that were aborted or have not ended."""

import pytest

from ottla.broker.committed_records import committed_records
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.storage.memory_files import MemoryFiles
from ottla.storage.partition_log import LogSettings, PartitionLog

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"
MARKER_VALUE = bytes(6)


class Log:
    """A log that takes records as `value`, within a transaction as `(producer, value)`, and its end as `(producer, COMMIT)`."""

    def __init__(self) -> None:
        self.log = PartitionLog(MemoryFiles(), "t-0", LogSettings())
        self.log.open(0)
        self._sequences: dict[int, int] = {}

    def add(self, *entries: str | tuple[int, str | bytes]) -> list[str]:
        for entry in entries:
            if isinstance(entry, str):
                self.log.append_records([Record(0, 0, b"k", entry.encode())], now_ms=0)
                continue
            producer, what = entry
            if isinstance(what, bytes):
                batch = encode_batch([Record(0, 0, what, MARKER_VALUE)], producer_id=producer, producer_epoch=0,
                                     is_transactional=True, is_control=True)  # fmt: skip
            else:
                sequence = self._sequences.get(producer, 0)
                self._sequences[producer] = sequence + 1
                batch = encode_batch([Record(0, 0, b"k", what.encode())], producer_id=producer, producer_epoch=0,
                                     base_sequence=sequence, is_transactional=True)  # fmt: skip
            self.log.append(batch, now_ms=0, from_client=False)
        return [(record.value or b"").decode() for record in committed_records(self.log)]


@pytest.mark.parametrize(
    ("entries", "counted"),
    [
        ((), []),
        (("a", "b"), ["a", "b"]),
        (((1, "x"), (1, COMMIT)), ["x"]),
        (((1, "x"), (1, ABORT), "a"), ["a"]),
        (("a", (1, "x"), "b"), ["a", "b"]),
        # by offset, not by when the transaction ended: a later commit of a group wins over one that lay in an open transaction
        (((1, "x"), "a", (1, COMMIT)), ["x", "a"]),
        (((1, "x"), (1, ABORT), (1, "y"), (1, COMMIT)), ["y"]),
        (((1, "x"), (1, COMMIT), (1, "y")), ["x"]),
        # others that ended behind the first open transaction
        (((1, "x"), (2, "y"), (2, COMMIT), (3, "z"), (3, ABORT), "a"), ["y", "a"]),
        (((1, "x"), (2, "y"), (2, ABORT), (2, "z"), (2, COMMIT)), ["z"]),
    ],
)
def test_what_counts(entries, counted: list[str]) -> None:
    assert Log().add(*entries) == counted
