"""Control records: the type and all fields of the one record of a control batch, for dumps (KIP-98, KIP-595, KIP-630, KIP-853).

They are only decoded here. An unknown type is named by its number; damaged bytes raise PeerError.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.records.schema import Field, JsonValue, Kind, Schema, array
from ottla.core.wire.reader import Reader

# The key: its own version, then the type.
CONTROL_KEY: Final = Struct(">hh")
_VERSION: Final = Field("version", Kind.INT16)
_VOTER_ID: Final = Field("voterId", Kind.INT32)
_VOTER_DIRECTORY: Final = Field("voterDirectoryId", Kind.UUID)
_VOTERS: Final = (_VOTER_ID, Field("voterDirectoryId", Kind.UUID, since=1))


class ControlType(IntEnum):
    """The second number of a control record's key; the names are Kafka's."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_type(key: bytes | None) -> int:
    """The type that a control record's key names: a ControlType, or a number that is not known here. Raises PeerError."""
    if key is None or len(key) < CONTROL_KEY.size:
        raise PeerError("a control record names no type")
    return int(CONTROL_KEY.unpack_from(key)[1])


def _flexible(*fields: Field, version_max: int = 0) -> Schema:
    return Schema(fields, version_max=version_max, flexible_since=0)


# Each begins with its own version, which is also the version of its fields; that of the transaction markers is no field.
_MARKER: Final = Schema((_VERSION, Field("coordinatorEpoch", Kind.INT32)))
_SCHEMAS: Final[dict[int, Schema]] = {
    ControlType.ABORT: _MARKER,
    ControlType.COMMIT: _MARKER,
    ControlType.LEADER_CHANGE: _flexible(
        _VERSION, Field("leaderId", Kind.INT32), array("voters", *_VOTERS), array("grantingVoters", *_VOTERS), version_max=1
    ),
    ControlType.SNAPSHOT_HEADER: _flexible(_VERSION, Field("lastContainedLogTimestamp", Kind.INT64)),
    ControlType.SNAPSHOT_FOOTER: _flexible(_VERSION),
    ControlType.KRAFT_VERSION: _flexible(_VERSION, Field("kRaftVersion", Kind.INT16)),
    ControlType.KRAFT_VOTERS: _flexible(
        _VERSION,
        array(
            "voters",
            _VOTER_ID,
            _VOTER_DIRECTORY,
            array("endpoints", Field("name", Kind.STRING), Field("host", Kind.STRING), Field("port", Kind.UINT16)),
            Field("kRaftVersionFeature", (Field("minSupportedVersion", Kind.INT16), Field("maxSupportedVersion", Kind.INT16))),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """`name` is Kafka's (ABORT, COMMIT, LEADER_CHANGE ...), UNKNOWN for a number without one; `data` is empty then."""

    control_type: int
    name: str
    data: dict[str, JsonValue]


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """The control record with this key and value; PeerError when the bytes are none."""
    number = control_type(key)
    if value is None:
        raise PeerError("a control record without a value")
    if number not in _SCHEMAS:
        return ControlRecord(number, "UNKNOWN", {})
    version = Reader(value).int16()
    if version < 0:
        raise PeerError(f"a control record of version {version}")
    return ControlRecord(number, ControlType(number).name, _SCHEMAS[number].decode(Reader(value), version))
