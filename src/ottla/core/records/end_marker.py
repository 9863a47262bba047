"""A transaction's end in the log: the record of its control batch, bytes <-> values.

It decides nothing about transactions; other kinds of control records (a leader's change, a snapshot's ends) give None. Source: KIP-98.
"""

from struct import Struct
from typing import Final, NamedTuple

from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.control import CONTROL_KEY, ControlType, control_type

_VALUE: Final = Struct(">hi")
_VERSION: Final = 0


class EndMarker(NamedTuple):
    """How a producer's transaction ended, and the epoch of the coordinator that ended it."""

    type: ControlType
    coordinator_epoch: int


def encode_end_marker(marker: EndMarker) -> tuple[bytes, bytes]:
    """Key and value of the one record of a control batch."""
    return CONTROL_KEY.pack(_VERSION, marker.type), _VALUE.pack(_VERSION, marker.coordinator_epoch)


def decode_end_marker(record: Record) -> EndMarker | None:
    """The marker in a control record; None for another kind of control record. Raises PeerError on bytes that are neither."""
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise PeerError(f"the transaction marker at offset {record.offset} names no coordinator epoch")
    return EndMarker(ControlType(kind), _VALUE.unpack_from(record.value)[1])
