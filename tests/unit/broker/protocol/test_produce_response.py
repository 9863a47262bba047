"""Our responses to Produce are kio's bytes, in every version."""

import datetime
import io
import uuid
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from ottla.broker.protocol.current_leader import Leader
from ottla.broker.protocol.produce_response import PartitionResult, encode_produce_response
from ottla.core.errors import ErrorCode
from ottla.core.wire import messages
from ottla.core.wire.api_keys import ApiKey
from ottla.storage.log.validation import Appended, LogRefusal

TOPIC_ID = uuid.UUID(int=7)
REFUSED = LogRefusal(ErrorCode.INVALID_RECORD, "no key", record_errors=((3, "record 3 has no key"),))
APPENDED = Appended(base_offset=5, last_offset=5, log_append_time_ms=-1, log_start_offset=2)


def decoded(version: int, partitions: list[PartitionResult]) -> Any:
    data = encode_produce_response(version, [(TOPIC_ID.bytes if version >= 13 else "t", partitions)], {1: Leader(1, "b", 9092)}.get)
    entity = messages.response_class(ApiKey.PRODUCE, version)
    body, size = entity_reader(entity)(bytes(data), 0)
    again = io.BytesIO()
    entity_writer(entity)(again, body)
    assert (size, again.getvalue()) == (len(data), bytes(data))
    return body


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version(version: int) -> None:
    body = decoded(version, [PartitionResult(0, APPENDED, 2), PartitionResult(1, REFUSED)])
    assert body.throttle_time == datetime.timedelta(0)
    (topic,) = body.responses
    assert (topic.topic_id == TOPIC_ID) if version >= 13 else (topic.name == "t")
    appended, refused = topic.partition_responses
    assert (appended.index, appended.error_code, appended.base_offset) == (0, ErrorCode.NONE, 5)
    assert (refused.index, refused.error_code, refused.base_offset) == (1, ErrorCode.INVALID_RECORD, -1)
    if version >= 5:
        assert (appended.log_start_offset, refused.log_start_offset) == (2, -1)
    if version >= 8:
        assert (refused.error_message, [(each.batch_index, each.batch_index_error_message) for each in refused.record_errors]) == (
            "no key",
            [(3, "record 3 has no key")],
        )
    if version >= 10:
        assert body.node_endpoints == ()


@pytest.mark.parametrize("version", range(10, 14))
def test_the_leader_is_named_with_its_address(version: int) -> None:
    body = decoded(version, [PartitionResult(0, LogRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another"), leader=(1, 4))])
    (part,) = body.responses[0].partition_responses
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, 4)
    assert [(each.node_id, each.host, each.port) for each in body.node_endpoints] == [(1, "b", 9092)]
