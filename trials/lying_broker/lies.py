"""The lies, by name: what a broker changes in its answers."""

import dataclasses
import datetime
import gzip
import random
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from uuid import UUID

import cramjam

from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import HEADER, HEADER_BYTES, encode_batch, join_batch, read_header, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire.api_keys import ApiKey
from trials.lying_broker.proxy import Answer, Change, framed

BOMB_BYTES: Final = 120 * 1024 * 1024
HUGE_COUNT: Final = b"\xff\xff\xff\xff\x07"
DRIP_S: Final = 0.05
NULL: Final = "~null~"
"""A string that is sent as null."""
Edit = Callable[[Any], Any]


class Lie(NamedTuple):
    """`change` is what becomes of the answers to `apis` (None: all). `is_credible`: a client cannot know that records are missing."""

    apis: frozenset[ApiKey] | None
    change: Change
    is_credible: bool = False


def alter(message: Any, path: str, value: Any) -> Any:
    """The message with another value of a field, in every item of the arrays on the way; a function of the old value gives the new one."""
    name, _, rest = path.partition(".")
    old = getattr(message, name)
    if rest:
        new = tuple(alter(item, rest, value) for item in old)
    else:
        new = value(old) if callable(value) else value
    return dataclasses.replace(message, **{name: new})


def field(path: str, value: Any) -> Change:
    """Change one field."""

    def change(answer: Answer) -> bytes:
        frame = answer.with_message(alter(answer.message, path, value))
        return _with_nulls(frame)

    return change


def _with_nulls(frame: bytes) -> bytes:
    body = frame[4:].replace(bytes([len(NULL) + 1]) + NULL.encode(), b"\0")
    return framed(body)


def code(value: int) -> Any:
    """An error code as kio writes it, known or not."""
    return SimpleNamespace(value=value)


# Whole frames.


def _huge_count(at: int) -> Change:
    return lambda answer: answer.with_body(answer.body[:at] + HUGE_COUNT + answer.body[at + 1 :])


def _mid_frame(answer: Answer) -> Iterator[bytes]:
    yield answer.frame[: len(answer.frame) // 2]
    raise ConnectionError("hung up")


def _drip(answer: Answer) -> Iterator[bytes]:
    for byte in answer.frame:
        time.sleep(DRIP_S)
        yield bytes([byte])


def _silence(answer: Answer) -> Iterator[bytes]:
    time.sleep(5)
    yield answer.frame


FRAMES: Final[Mapping[str, Change]] = {
    "another correlation id": lambda answer: framed(b"\x7f\0\0\1" + answer.head[4:] + answer.body),
    "half a body": lambda answer: answer.with_body(answer.body[: len(answer.body) // 2]),
    "an empty body": lambda answer: answer.with_body(b""),
    "bytes behind the body": lambda answer: answer.with_body(answer.body + bytes(100)),
    "random bytes": lambda answer: answer.with_body(random.Random(1).randbytes(len(answer.body))),
    "the end in mid-frame": _mid_frame,
}
"""What may be wrong with the answer to any request."""

WHOLE: Final[Mapping[str, Change]] = {
    "no answer": _silence,
    "a byte every 50 ms": _drip,
    "the end": lambda _: None,
    "a length of -1": lambda _: b"\xff" * 4,
    "a length of 0": lambda _: bytes(4),
    "a length of 2 GB": lambda answer: b"\x7f\xff\xff\xff" + answer.head,
    "a length of 250 MB, and little of it": lambda answer: struct.pack(">i", 250_000_000) + answer.head,
    "a TLS alert": lambda _: b"\x15\x03\x01\0\x02\x02\x46",
    "an HTTP error": lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "every answer twice": lambda answer: answer.frame * 2,
    "an answer without a request": lambda answer: framed(b"\0\0\0\x63" + bytes(8)) + answer.frame,
}
COUNTS: Final = {
    ApiKey.API_VERSIONS: 2,
    ApiKey.METADATA: 4,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_FETCH: 4,
    ApiKey.LIST_OFFSETS: 4,
    ApiKey.OFFSET_COMMIT: 4,
    ApiKey.FETCH: 10,
}
"""Where the first array of an answer has its count."""
ERRORS: Final = {
    ApiKey.METADATA: "topics.error_code",
    ApiKey.FIND_COORDINATOR: "coordinators.error_code",
    ApiKey.JOIN_GROUP: "error_code",
    ApiKey.SYNC_GROUP: "error_code",
    ApiKey.HEARTBEAT: "error_code",
    ApiKey.OFFSET_FETCH: "groups.error_code",
    ApiKey.LIST_OFFSETS: "topics.partitions.error_code",
    ApiKey.OFFSET_COMMIT: "topics.partitions.error_code",
    ApiKey.FETCH: "responses.partitions.error_code",
}
CODES: Final = {
    ApiKey.METADATA: (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ApiKey.FIND_COORDINATOR: (ErrorCode.COORDINATOR_NOT_AVAILABLE,),
    ApiKey.JOIN_GROUP: (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR),
    ApiKey.SYNC_GROUP: (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION),
    ApiKey.HEARTBEAT: (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR),
    ApiKey.OFFSET_FETCH: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR),
    ApiKey.LIST_OFFSETS: (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE),
    ApiKey.OFFSET_COMMIT: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.REBALANCE_IN_PROGRESS),
    ApiKey.FETCH: (
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ),
}


# Records.


def records(edit: Callable[[bytes], bytes | None]) -> Change:
    """Change the record batches of a Fetch."""
    return field("responses.partitions.records", lambda old: edit(bytes(old)) if old else old)


def header(**changes: Any) -> Change:
    """Change the first batch's header, and not its checksum; a function of the old value gives the new one."""

    def edit(data: bytes) -> bytes:
        old = read_header(data)
        new = {name: value(getattr(old, name)) if callable(value) else value for name, value in changes.items()}
        return HEADER.pack(*old._replace(**new)) + data[HEADER_BYTES:]

    return records(edit)


def sealed(section: Callable[[bytes], bytes], **changes: Any) -> Change:
    """Change the first batch's records and header, with a checksum that is right."""

    def edit(data: bytes) -> bytes:
        old = read_header(data)
        return bytes(join_batch(old._replace(**changes), section(data[HEADER_BYTES : old.size_bytes]))) + data[old.size_bytes :]

    return records(edit)


def _split(data: bytes) -> list[bytes]:
    return [data[at : at + each.size_bytes] for at, each in split_batches(data)]


def _out_of_order(data: bytes) -> bytes:
    first = read_header(data).base_offset
    return bytes(encode_batch([Record(first + at, 0, None, b"x") for at in (0, 5, 1, 2)], base_offset=first))


def bomb(data: bytes, attributes: int) -> Change:
    """A batch of compressed bytes that are many zeros."""
    return sealed(lambda _: data, attributes=attributes)


RECORDS: Final[Mapping[str, Lie | Change]] = {
    "a wrong checksum": header(crc=lambda crc: crc ^ 1),
    "a batch that is longer than the answer": header(batch_length=lambda length: length + 1_000_000),
    "a batch length of -1": header(batch_length=-1),
    "a batch length of 10": header(batch_length=10),
    "magic 1": header(magic=1),
    "magic 9": header(magic=9),
    "a base offset of -10": header(base_offset=-10),
    "a base offset of 2^63 - 1": header(base_offset=2**63 - 1),
    "a base offset 1,000 too high": Lie(None, header(base_offset=lambda offset: offset + 1_000), is_credible=True),
    "batches in the wrong order": records(lambda data: b"".join(reversed(_split(data)))),
    "every batch twice": records(lambda data: b"".join(batch * 2 for batch in _split(data))),
    "records from the log's start, again and again": records(lambda data: _split(data)[0] if _split(data) else data),
    "a record count of 2^31 - 1": sealed(lambda section: section, record_count=2**31 - 1),
    "a record count of -1": sealed(lambda section: section, record_count=-1),
    "a record count of 1": sealed(lambda section: section, record_count=1),
    "a last offset delta of -1": sealed(lambda section: section, last_offset_delta=-1),
    "a last offset delta of 0": sealed(lambda section: section, last_offset_delta=0),
    "a last offset delta of 2^31 - 1": Lie(None, sealed(lambda section: section, last_offset_delta=2**31 - 1), is_credible=True),
    "a codec that does not exist": sealed(lambda section: section, attributes=7),
    "records that are no gzip": sealed(lambda section: section, attributes=Codec.GZIP),
    "records that are no snappy": sealed(lambda section: section, attributes=Codec.SNAPPY),
    "records that are no lz4": sealed(lambda section: section, attributes=Codec.LZ4),
    "records that are no zstd": sealed(lambda section: section, attributes=Codec.ZSTD),
    "snappy of 4 GB": sealed(lambda _: b"\xff\xff\xff\xff\x0f" + bytes(100), attributes=Codec.SNAPPY),
    "a gzip bomb": bomb(gzip.compress(bytes(BOMB_BYTES), 9), Codec.GZIP),
    "a zstd bomb": bomb(bytes(cramjam.zstd.compress(bytes(BOMB_BYTES))), Codec.ZSTD),
    "a zstd bomb of a million empty records": sealed(
        lambda _: bytes(cramjam.zstd.compress(b"\x0c\0\0\0\x01\x01\0" * 1_000_000)),
        attributes=Codec.ZSTD,
        record_count=1_000_000,
        last_offset_delta=999_999,
    ),
    "a control batch": Lie(None, sealed(lambda section: section, attributes=0x20), is_credible=True),
    "records whose offsets do not rise": records(_out_of_order),
    "records cut in the middle": sealed(lambda section: section[: len(section) // 2]),
    "a record of negative length": sealed(lambda section: b"\x01" + section[1:]),
    "records of random bytes": sealed(lambda section: random.Random(2).randbytes(len(section))),
    "varints without an end": sealed(lambda section: b"\xff" * len(section)),
    "times beyond 64 bits": sealed(lambda section: section, base_timestamp_ms=2**63 - 1),
    "random bytes for records": records(lambda data: random.Random(3).randbytes(len(data))),
    # Compaction may have removed them.
    "records of null": Lie(None, field("responses.partitions.records", None), is_credible=True),
    "no records": Lie(None, field("responses.partitions.records", b""), is_credible=True),
    "half of the first batch": records(lambda data: data[: read_header(data).size_bytes // 2]),
}

FETCHES: Final[Mapping[str, Lie | Change]] = {
    "partition -1": field("responses.partitions.partition_index", -1),
    "a partition that was not requested": field("responses.partitions.partition_index", lambda number: number + 7),
    "every partition twice": field("responses.partitions", lambda old: old * 2),
    "a topic that was not requested": field("responses.topic_id", UUID(int=7)),
    "every topic twice": field("responses", lambda old: old * 2),
    "no topics": field("responses", ()),
    "a high watermark of -1": field("responses.partitions.high_watermark", -1),
    "a high watermark of 2^62": field("responses.partitions.high_watermark", 2**62),
    "a last stable offset of -5": field("responses.partitions.last_stable_offset", -5),
    "a log that starts at 2^62": field("responses.partitions.log_start_offset", 2**62),
    "a replica that does not exist": field("responses.partitions.preferred_read_replica", 99),
    "session -7": field("session_id", -7),
    "a session that it has not": field("session_id", 12_345),
    "a throttle time of 24 days": field("throttle_time", datetime.timedelta(milliseconds=2**31 - 1)),
    "an unknown error of all": field("error_code", code(999)),
    "a session that it has lost, of all": field("error_code", code(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)),
    "UNKNOWN_SERVER_ERROR of all": field("error_code", code(-1)),
}
METADATAS: Final[Mapping[str, Lie | Change]] = {
    "no brokers": field("brokers", ()),
    "no topics": field("topics", ()),
    "no partitions": field("topics.partitions", ()),
    "a host of no letters": field("brokers.host", ""),
    "a host of null": field("brokers.host", NULL),
    "a host with a zero byte": field("brokers.host", "a\0b"),
    "a host of 200 letters a": field("brokers.host", "a" * 200),
    "port 0": field("brokers.port", 0),
    "port 70000": field("brokers.port", 70_000),
    "port -1": field("brokers.port", -1),
    "broker -1": field("brokers.node_id", -1),
    "10,000 brokers": field("brokers", lambda old: old * 10_000),
    "leader 99": field("topics.partitions.leader_id", 99),
    "leader -1": field("topics.partitions.leader_id", -1),
    "leader -5": field("topics.partitions.leader_id", -5),
    "leader epochs of -1": field("topics.partitions.leader_epoch", -1),
    # Those of the past are not believed afterwards (KIP-320).
    "leader epochs of 2^31 - 1": Lie(None, field("topics.partitions.leader_epoch", 2**31 - 1), is_credible=True),
    "partition -1": field("topics.partitions.partition_index", -1),
    "partition 10^9": field("topics.partitions.partition_index", 10**9),
    "every partition twice": field("topics.partitions", lambda old: old * 2),
    "partitions with errors": field("topics.partitions.error_code", code(ErrorCode.LEADER_NOT_AVAILABLE)),
    "partitions with unknown errors": field("topics.partitions.error_code", code(999)),
    "another topic": field("topics.name", "other"),
    "a topic of null": field("topics.name", NULL),
    "another topic id each time": field("topics.topic_id", lambda _: UUID(int=time.monotonic_ns())),
    "a topic id of zeros": field("topics.topic_id", UUID(int=0)),
    "every topic twice": field("topics", lambda old: old * 2),
}
VERSIONS: Final[Mapping[str, Change]] = {
    "no APIs": field("api_keys", ()),
    "versions that end before they begin": field("api_keys.max_version", -1),
    "no Fetch": field("api_keys", lambda old: tuple(each for each in old if each.api_key != ApiKey.FETCH)),
    "versions of the future": field("api_keys.min_version", 32_000),
    "an unknown error": field("error_code", code(999)),
}
GROUPS: Final[Mapping[ApiKey, Mapping[str, Lie | Change]]] = {
    ApiKey.FIND_COORDINATOR: {
        "no coordinators": field("coordinators", ()),
        "broker -1": field("coordinators.node_id", -1),
        "broker 99 at port 1": lambda answer: answer.with_message(
            alter(alter(answer.message, "coordinators.node_id", 99), "coordinators.port", 1)
        ),
        "a host of no letters": field("coordinators.host", ""),
        "a host of null": field("coordinators.host", NULL),
        "port 70000": field("coordinators.port", 70_000),
    },
    ApiKey.JOIN_GROUP: {
        "generation -1": field("generation_id", -1),
        "a member id of no letters": field("member_id", ""),
        "a protocol that nobody has": field("protocol_name", "unheard-of"),
        "a protocol of null": field("protocol_name", None),
        "members whose subscription makes no sense": field("members.metadata", b"\xff\x00\xff"),
        "every member twice": field("members", lambda old: old * 2),
        "a leader without members": field("members", ()),
    },
    ApiKey.SYNC_GROUP: {
        "an assignment of no bytes": Lie(None, field("assignment", b""), is_credible=True),
        "an assignment that makes no sense": field("assignment", b"\xff\x00\xff\x03"),
        "an assignment of 2^31 - 1 topics": field("assignment", b"\0\0\x7f\xff\xff\xff"),
        "an assignment of another topic": field("assignment", struct.pack(">hih5sii", 0, 1, 5, b"other", 1, 0) + b"\xff" * 4),
        "an assignment of partition -1": field("assignment", struct.pack(">hih4sii", 0, 1, 4, b"lies", 1, -1) + b"\xff" * 4),
        "an assignment of partition 10^9": Lie(
            None, field("assignment", struct.pack(">hih4sii", 0, 1, 4, b"lies", 1, 10**9) + b"\xff" * 4), is_credible=True
        ),
        "an assignment of a partition twice": Lie(
            None, field("assignment", struct.pack(">hih4siii", 0, 1, 4, b"lies", 2, 0, 0) + b"\xff" * 4), is_credible=True
        ),
    },
    ApiKey.OFFSET_FETCH: {
        "no groups": field("groups", ()),
        "no topics": field("groups.topics", ()),
        "another group": field("groups.group_id", "other"),
        "an offset of -5": field("groups.topics.partitions.committed_offset", -5),
        "an offset of 2^62": Lie(None, field("groups.topics.partitions.committed_offset", 2**62), is_credible=True),
        "a leader epoch of 2^31 - 1": Lie(None, field("groups.topics.partitions.committed_leader_epoch", 2**31 - 1), is_credible=True),
        "another partition": field("groups.topics.partitions.partition_index", lambda number: number + 7),
        "partitions with unknown errors": field("groups.topics.partitions.error_code", code(999)),
    },
    ApiKey.LIST_OFFSETS: {
        "no topics": field("topics", ()),
        "an offset of -5": field("topics.partitions.offset", -5),
        "an offset of 2^62": Lie(None, field("topics.partitions.offset", 2**62), is_credible=True),
        "a leader epoch of -7": field("topics.partitions.leader_epoch", -7),
        "another partition": field("topics.partitions.partition_index", lambda number: number + 7),
        "every partition twice": field("topics.partitions", lambda old: old * 2),
    },
    ApiKey.OFFSET_COMMIT: {
        "no topics": field("topics", ()),
        "another partition": field("topics.partitions.partition_index", lambda number: number + 7),
        "a throttle time of 24 days": field("throttle_time", datetime.timedelta(milliseconds=2**31 - 1)),
    },
}


def _all() -> dict[str, Lie]:
    lies: dict[str, Lie] = {}

    def add(api: ApiKey | None, what: str, lie: Lie | Change) -> None:
        found = lie if isinstance(lie, Lie) else Lie(None, lie)
        name = "every API" if api is None else api.name
        lies[f"{name}: {what}"] = found._replace(apis=None if api is None else frozenset({api}))

    for what, change in WHOLE.items():
        add(None, what, change)
    for api in (ApiKey.API_VERSIONS, *ERRORS):
        for what, change in FRAMES.items():
            add(api, what, change)
    for api, at in COUNTS.items():
        add(api, "a count of 2^31", _huge_count(at))
    for api, path in ERRORS.items():
        add(api, "an unknown error", field(path, code(999)))
        for error in CODES[api]:
            add(api, error.name, field(path, code(error)))
    for api, more in {ApiKey.FETCH: {**RECORDS, **FETCHES}, ApiKey.METADATA: METADATAS, ApiKey.API_VERSIONS: VERSIONS, **GROUPS}.items():
        for what, lie in more.items():
            add(api, what, lie)
    return lies


LIES: Final[Mapping[str, Lie]] = _all()
"""All of them."""
