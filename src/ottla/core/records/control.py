"""Control records: what the one record of a control batch says, for dumps (KIP-98, KIP-595, KIP-630, KIP-853).

Nothing acts on it here. A type that is not known is named by its number; damaged bytes are a PeerError.
"""

from dataclasses import dataclass
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.records.schema import Field, JsonValue, Kind, Schema, array
from ottla.core.wire import Reader

_VERSION: Final = Field("version", Kind.INT16)
_VOTER_ID: Final = Field("voterId", Kind.INT32)
_VOTER_DIRECTORY: Final = Field("voterDirectoryId", Kind.UUID)
_VOTERS: Final = (_VOTER_ID, Field("voterDirectoryId", Kind.UUID, since=1))


def _flexible(*fields: Field, version_max: int = 0) -> Schema:
    return Schema(fields, version_max=version_max, flexible_since=0)


# Each begins with its own version, which is also the version of its fields; that of the transaction markers is no field.
_MARKER: Final = Schema((_VERSION, Field("coordinatorEpoch", Kind.INT32)))
CONTROL_TYPES: Final[dict[int, tuple[str, Schema]]] = {
    0: ("ABORT", _MARKER),
    1: ("COMMIT", _MARKER),
    2: (
        "LEADER_CHANGE",
        _flexible(_VERSION, Field("leaderId", Kind.INT32), array("voters", *_VOTERS), array("grantingVoters", *_VOTERS), version_max=1),
    ),
    3: ("SNAPSHOT_HEADER", _flexible(_VERSION, Field("lastContainedLogTimestamp", Kind.INT64))),
    4: ("SNAPSHOT_FOOTER", _flexible(_VERSION)),
    5: ("KRAFT_VERSION", _flexible(_VERSION, Field("kRaftVersion", Kind.INT16))),
    6: (
        "KRAFT_VOTERS",
        _flexible(
            _VERSION,
            array(
                "voters",
                _VOTER_ID,
                _VOTER_DIRECTORY,
                array("endpoints", Field("name", Kind.STRING), Field("host", Kind.STRING), Field("port", Kind.UINT16)),
                Field("kRaftVersionFeature", (Field("minSupportedVersion", Kind.INT16), Field("maxSupportedVersion", Kind.INT16))),
            ),
        ),
    ),
}
ABORT: Final = 0
COMMIT: Final = 1


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """`name` is Kafka's (ABORT, COMMIT, LEADER_CHANGE ...), UNKNOWN for a number without one; `data` is empty then."""

    control_type: int
    name: str
    data: dict[str, JsonValue]


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """The control record with this key and value; PeerError when the bytes are none."""
    if key is None or value is None:
        raise PeerError("a control record without key or value")
    reader = Reader(key)
    reader.skip(2)  # the version of the key
    number = reader.int16()
    if number not in CONTROL_TYPES:
        return ControlRecord(number, "UNKNOWN", {})
    name, schema = CONTROL_TYPES[number]
    version = Reader(value).int16()
    if version < 0:
        raise PeerError(f"a control record of version {version}")
    return ControlRecord(number, name, schema.decode(Reader(value), version))
