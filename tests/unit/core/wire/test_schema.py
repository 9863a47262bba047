"""What kio's classes state about their fields."""

import dataclasses

from ottla.core.wire.api_keys import ApiKey
from ottla.core.wire.messages import request_class, response_class
from ottla.core.wire.schema import Entity, fixed_bytes, has_arrays, is_array, is_nullable, kind_of, nested_entity, untagged_fields


def field(entity: Entity, name: str) -> "dataclasses.Field[object]":
    return next(each for each in dataclasses.fields(entity) if each.name == name)


def test_fields() -> None:
    join = request_class(ApiKey.JOIN_GROUP, 9)
    protocols, reason, timeout = (field(join, name) for name in ("protocols", "reason", "session_timeout"))
    assert (is_array(protocols), is_array(reason), is_nullable(reason), is_nullable(protocols)) == (True, False, True, False)
    assert (fixed_bytes(timeout), fixed_bytes(reason), fixed_bytes(protocols), kind_of(reason)) == (4, 0, 0, "string")
    nested = nested_entity(protocols)
    assert nested is not None
    assert [each.name for each in dataclasses.fields(nested)] == ["name", "metadata"]
    assert nested_entity(reason) is None


def test_tagged_fields_are_not_always_there() -> None:
    fetch = request_class(ApiKey.FETCH, 15)
    assert "replica_state" in {each.name for each in dataclasses.fields(fetch)}
    assert "replica_state" not in {each.name for each in untagged_fields(fetch)}


def test_arrays_within_structures_count() -> None:
    assert not has_arrays(request_class(ApiKey.HEARTBEAT, 4))
    assert has_arrays(request_class(ApiKey.OFFSET_FETCH, 1))
    groups = field(request_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1), "topic_partitions")
    assert has_arrays(nested_entity(groups))
    assert has_arrays(response_class(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)), "in the assignment"
