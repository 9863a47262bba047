"""Which decoder is used."""

import threading

import pytest

from ottla.client.consumer import decoding
from ottla.client.consumer.plain_columns import PlainColumns, decode_plain
from ottla.client.engine.record_buffer import Decode
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch


def fetched(value_bytes: int) -> FetchedRecords:
    return FetchedRecords(TopicPartition("t", 0), 0, 1, memoryview(bytes(encode_batch([Record(0, 0, None, bytes(value_bytes))]))))


def test_a_thread_loads_the_compiled_decoder_and_nothing_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, threads, load = threading.Event(), [], decoding.load

    def load_late() -> Decode:
        threads.append(threading.current_thread())
        assert gate.wait(60)
        return load()

    monkeypatch.setattr(decoding, "load", load_late)
    decode = decoding.BackgroundDecoder()
    (small,) = decode(fetched(10))
    assert not threads, "small fetches do not need it"
    (large,), _ = decode(fetched(decoding.SMALL_BYTES)), decode(fetched(decoding.SMALL_BYTES))
    assert isinstance(large, PlainColumns)
    two = b"".join(bytes(encode_batch([Record(at, 0, None, bytes(decoding.SMALL_BYTES))], base_offset=at)) for at in range(2))
    pieces = decode(FetchedRecords(TopicPartition("t", 0), 0, 2, memoryview(two)))
    first = next(pieces)
    gate.set()
    decode.wait()
    (second,) = pieces
    assert [(type(each) is PlainColumns, each.offset(0)) for each in (first, second)] == [(True, 0), (False, 1)], (
        "it takes over where it can"
    )
    (small,), (large,) = decode(fetched(10)), decode(fetched(decoding.SMALL_BYTES))
    assert isinstance(small, PlainColumns)
    assert not isinstance(large, PlainColumns)
    (thread,) = threads
    assert thread is not threading.current_thread()


def test_a_decoder_that_cannot_be_loaded_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(decoding, "load", lambda: 1 // 0)
    decode = decoding.BackgroundDecoder()
    for _ in range(2):
        (large,) = decode(fetched(decoding.SMALL_BYTES))
        assert isinstance(large, PlainColumns)
        decode.wait()
    assert caplog.text.count("the compiled decoder cannot be loaded") == 1


def test_without_the_extra_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "missing_packages", lambda extra: [extra])
    assert decoding.decoder() is decode_plain
