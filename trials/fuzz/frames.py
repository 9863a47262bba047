"""Frames of every API in every version, made by kio and then broken: bytes flipped, cut, inserted, lengths made huge, bodies of pure noise.

Everything is drawn from the `random.Random` that the caller passes: the same seed gives the same frames.
"""

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

from ottla.broker.api_registry import APIS
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.bounds import is_array, kind_of, nested_entity
from ottla.protocol.wire.messages import encode, fitter, is_flexible, request_class

PAIRS = [(api.key, version) for api in APIS.values() for version in api.versions if version not in api.refused]
"""Every API and version that is served."""
BATCH = bytes(encode_batch([Record(0, 1, b"k", b"v")]))
# One value for each field name, so that a request of any API is a plausible one; the rest take kio's defaults.
VALUES: dict[str, Any] = {
    "client_software_name": "fuzz", "client_software_version": "1", "acks": -1, "timeout": 100, "transactional_id": "x",
    "name": "t", "topic": "t", "group_id": "g", "member_id": "", "session_timeout": 50, "rebalance_timeout": 50,
    "protocol_type": "consumer",
    "generation_id": 1, "generation_id_or_member_epoch": -1, "replica_id": -1, "max_wait": 1, "min_bytes": 1, "max_bytes": 1000,
    "isolation_level": 0, "index": 0, "records": BATCH, "partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000,
    "partition_index": 0, "committed_offset": 1, "committed_metadata": "m", "retention_time": -1,
    "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff",
    "assignment": b"a", "key": "g", "key_type": 0, "coordinator_keys": ("g",),
    "groups": ("g",), "groups_names": ("g",), "topic_name": "t", "topic_names": ("gone",),
    "num_partitions": 1, "replication_factor": 1, "value": "1", "broker_ids": (1,), "count": 2, "validate_only": False, "timestamp": -1,
    "resource_type": 2, "resource_name": "t", "configuration_keys": None, "config_operation": 0, "partition_indexes": (0,),
    "include_synonyms": True, "include_documentation": True, "states_filter": (), "types_filter": (), "include_authorized_operations": True,
    "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1, "include_cluster_authorized_operations": True,
    "allow_auto_topic_creation": True, "include_topic_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": False,
    "member_epoch": -1, "require_stable": False, "reason": "r", "group_instance_id": None, "committed_leader_epoch": -1,
    "current_leader_epoch": -1, "session_id": 0, "session_epoch": -1, "rack_id": "", "last_fetched_epoch": -1, "log_start_offset": -1,
    "partitions": (), "forgotten_topics_data": (), "protocol_name": "range", "topic_id": None, "offset": 0, "leader_epoch": 0,
    "path": "/data", "response_partition_limit": 10,
    "election_type": 0, "replicas": (0,),
    "v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 0, "v3_and_below_producer_epoch": 0, "verify_only": False,
    "committed": True, "transaction_result": True, "coordinator_epoch": 0, "transaction_version": 0, "transactional_ids": ("x",),
    "feature": "group.version", "max_version_level": 1, "allow_downgrade": False, "upgrade_type": 1,
    "state_filters": ("Empty",), "producer_id_filters": (), "duration_filter": -1, "transactional_id_pattern": "x.*",
    "mechanism": "PLAIN", "auth_bytes": b"\0u\0p",
    "resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3, "principal_filter": None, "host_filter": None,
    "operation": 3, "permission_type": 3, "principal": "User:a", "host": "*", "resource_pattern_type": 3,
    "entity_type": "user", "entity_name": "u", "match_type": 0, "match": "u", "strict": False, "remove": False,
    "iterations": 4096, "salt": b"salt", "salted_password": b"salted",
}  # fmt: skip
NUMBERS_OF_NAMES = {("value", "float64"): 1.5, ("mechanism", "int8"): 1}
"""Where one API has a number for what is a name in others."""
NAMES = (
    "t",
    "g",
    "",
    "__consumer_offsets",
    "__cluster_metadata",
    "__ottla_group_events",
    ".",
    "..",
    "a/b",
    "x" * 249,
    "x" * 300,
    "a\nb\x1b[2J",
    "ä",
)
NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 49, 50, 1000, 10_000, 10_001, 2**31 - 1)


def plausible(entity: type[Any], rng: random.Random | None = None) -> dict[str, Any]:
    """A value for every field of a message, one item in every array; with `rng`, some are strange, and arrays have up to three items."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        nested = nested_entity(field)
        if nested is not None:
            count = 1 if rng is None else rng.choice((0, 1, 1, 1, 2, 3))
            many = [plausible(nested, rng) for _ in range(count)]
            values[field.name] = many if is_array(field) else plausible(nested, rng)
        elif field.name in VALUES:
            value = NUMBERS_OF_NAMES.get((field.name, kind_of(field)), VALUES[field.name])
            values[field.name] = value if rng is None or rng.random() < 0.8 else _strange(value, rng)
    return values


def _strange(value: Any, rng: random.Random) -> Any:
    if isinstance(value, str):
        return rng.choice(NAMES)
    if isinstance(value, bytes):
        return rng.randbytes(rng.randrange(100))
    if isinstance(value, tuple):
        return tuple(_strange(each, rng) for each in value * rng.randrange(4))
    if isinstance(value, int) and not isinstance(value, bool):
        return rng.choice(NUMBERS)
    return value


def frame(key: int, version: int, rng: random.Random | None = None) -> bytes:
    """A request without its size. With `rng`, values that the version cannot hold give the plausible ones instead."""
    entity = request_class(key, version)
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (9).to_bytes(4, "big") + b"\0\4fuzz"
    head += b"\0" if is_flexible(key, version) else b""
    for values in (plausible(entity, rng), plausible(entity)):
        try:
            return head + encode(fitter(entity)(values))
        except Exception:
            if rng is None:
                raise  # else a number is too large for its field, for instance
    raise AssertionError(f"no request of API {key} v{version} can be made")


def broken(data: bytes, rng: random.Random) -> bytes:
    """The frame with something wrong in it; its header is usually left alone, so that the body's parser is reached."""
    out = bytearray(data)
    kind = rng.randrange(6)
    first = 0 if rng.random() < 0.1 else min(14, len(out) - 1)
    if kind == 0:
        for _ in range(rng.randint(1, 5)):
            out[rng.randrange(first, len(out))] = rng.randrange(256)
    elif kind == 1:
        del out[rng.randrange(first, len(out)) :]
    elif kind == 2:
        at = rng.randrange(first, len(out))
        out[at : at + 4] = rng.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\xff\xff"])
    elif kind == 3:
        out[first:] = rng.randbytes(rng.randrange(200))
    elif kind == 4:
        out += rng.randbytes(rng.randrange(50))
    else:
        at = rng.randrange(first, len(out))
        out[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(out)


def sized(frames: Sequence[bytes]) -> bytes:
    """Frames as they go over a socket, each behind its size."""
    return b"".join(len(data).to_bytes(4, "big") + data for data in frames)
