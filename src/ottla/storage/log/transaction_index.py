"""The `.txnindex` file of a segment: which transactions were aborted in it, as values and as Kafka's bytes.

Entries are in the order of their markers (`last_offset` rises). No file is touched here. Source: KIP-98.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

_VERSION: Final = 0
TRANSACTION_ENTRY: Final = Struct(">hqqqq")
"""Version, then the fields of `AbortedTransaction`."""


class AbortedTransaction(NamedTuple):
    """`first_offset` is the transaction's first record, `last_offset` its marker; `last_stable_offset` as it was after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_transactions(aborted: Iterable[AbortedTransaction]) -> bytes:
    """The entries as they lie in `.txnindex`: 34 bytes each."""
    return b"".join(TRANSACTION_ENTRY.pack(_VERSION, *transaction) for transaction in aborted)


def decode_transactions(data: bytes) -> list[AbortedTransaction] | None:
    """The entries of a `.txnindex` file; None when it is damaged (then it is rebuilt from the log)."""
    if len(data) % TRANSACTION_ENTRY.size:
        return None
    found, last = [], -1
    for version, *fields in TRANSACTION_ENTRY.iter_unpack(data):
        transaction = AbortedTransaction(*fields)
        if version > _VERSION or transaction.last_offset <= last or transaction.first_offset > transaction.last_offset:
            return None
        found.append(transaction)
        last = transaction.last_offset
    return found
