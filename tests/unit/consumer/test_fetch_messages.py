"""Our Fetch bytes against kio's, and answers that are not about what was asked."""

import datetime
import io
import random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.fetch.v12.response import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from ottla.consumer.fetch_messages import Fetched, decode_fetch, encode_fetch
from ottla.core.errors import ErrorCode, PeerError


def _answer(topic: str = "t", partition: int = 3, error: int = 0, top_level: int = 0, **fields: Any) -> bytes:
    data = PartitionData(
        partition_index=partition,
        error_code=KioErrorCode(error),
        high_watermark=70,
        log_start_offset=5,
        **{"aborted_transactions": None, "records": b"records", **fields},
    )
    response = FetchResponse(
        throttle_time=i32Timedelta.parse(datetime.timedelta(0)),
        error_code=KioErrorCode(top_level),
        responses=(FetchableTopicResponse(topic=topic, partitions=(data,)),) if not top_level else (),
    )
    out = io.BytesIO()
    entity_writer(FetchResponse)(out, response)
    return out.getvalue()


def test_the_request_is_the_one_that_kio_writes():
    body = encode_fetch("flights", 7, 123, bytes_max=1000, wait_ms_max=250)
    request, size = entity_reader(FetchRequest)(body, 0)
    assert size == len(body)
    assert request.topics == (
        FetchTopic(topic="flights", partitions=(FetchPartition(partition=7, fetch_offset=123, partition_max_bytes=1000),)),
    )
    assert (request.max_wait.total_seconds(), request.min_bytes, request.max_bytes) == (0.25, 1, 1000)
    assert (request.replica_id, request.isolation_level, request.session_epoch) == (-1, 0, -1)
    out = io.BytesIO()
    entity_writer(FetchRequest)(out, request)
    assert out.getvalue() == body


def test_the_answer_s_records_are_a_view():
    answer = memoryview(_answer())
    fetched = decode_fetch(answer, "t", 3)
    assert (fetched.error, fetched.high_watermark, fetched.log_start_offset) == (ErrorCode.NONE, 70, 5)
    assert (fetched.records, fetched.records.obj) == (b"records", answer.obj)


@pytest.mark.parametrize("records", [None, b""])
def test_no_records(records: bytes | None):
    assert decode_fetch(memoryview(_answer(records=records)), "t", 3).records == b""


def test_aborted_transactions_are_passed_over():
    aborted = tuple(AbortedTransaction(producer_id=i, first_offset=i) for i in range(3))
    assert decode_fetch(memoryview(_answer(aborted_transactions=aborted)), "t", 3).records == b"records"


def test_errors_are_values():
    assert decode_fetch(memoryview(_answer(error=1)), "t", 3).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert decode_fetch(memoryview(_answer(top_level=70)), "t", 3) == Fetched(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, -1, -1, memoryview(b""))


@pytest.mark.parametrize(("topic", "partition"), [("u", 3), ("t", 4)])
def test_an_answer_about_something_else_blames_the_peer(topic: str, partition: int):
    with pytest.raises(PeerError, match="not about"):
        decode_fetch(memoryview(_answer()), topic, partition)


def test_any_bytes_give_an_answer_or_peer_error():
    dice, sound = random.Random(3), _answer()
    for _ in range(3000):
        data = bytearray(sound)
        for _ in range(dice.randrange(1, 5)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        del data[dice.randrange(len(data) + 1) :]
        try:
            decode_fetch(memoryview(data).toreadonly(), "t", 3)
        except PeerError:
            continue
