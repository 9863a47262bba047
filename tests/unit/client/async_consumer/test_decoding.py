"""The compiled decoder is loaded by a thread, while the event loop runs."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from ottla.client.async_consumer.decoding import LoadingDecoder
from ottla.client.consumer.arrow.columns import ArrowColumns
from ottla.client.consumer.decoding import load
from ottla.client.consumer.plain_columns import PlainColumns
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch


def fetched(value_bytes: int) -> FetchedRecords:
    records = [Record(offset, 0, None, bytes(value_bytes)) for offset in range(3)]
    return FetchedRecords(TopicPartition("t", 0), 0, 3, memoryview(bytes(encode_batch(records, base_offset=0))))


def test_small_fetches_need_no_loading() -> None:
    async def run() -> None:
        decoder = LoadingDecoder(asyncio.get_running_loop(), on_loaded=lambda: None, load=lambda: pytest.fail("it is not needed"))
        (columns,) = decoder(fetched(10))
        assert isinstance(columns, PlainColumns)
        assert not decoder.is_loading

    asyncio.run(run())


def test_the_loop_runs_while_a_large_fetch_waits() -> None:
    gate, calls = threading.Event(), []

    def wait() -> None:
        calls.append(threading.current_thread())
        assert gate.wait(60)
        load()

    async def run() -> None:
        loaded = asyncio.Event()
        decoder = LoadingDecoder(asyncio.get_running_loop(), on_loaded=loaded.set, load=wait)
        waiting = [decoder(fetched(10_000)) for _ in range(2)]
        assert decoder.is_loading
        asyncio.get_running_loop().call_soon(gate.set)
        await loaded.wait()
        assert not decoder.is_loading
        for each in waiting:
            (columns,) = each
            assert isinstance(columns, ArrowColumns)
            assert len(columns) == 3

    asyncio.run(run())
    assert len(calls) == 1
    assert calls[0] is not threading.current_thread()


def test_a_decoder_that_cannot_be_loaded_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        loaded = asyncio.Event()
        decoder = LoadingDecoder(asyncio.get_running_loop(), on_loaded=loaded.set, load=lambda: 1 // 0)  # type: ignore[arg-type, return-value]
        decoder(fetched(10_000))
        await loaded.wait()
        assert not decoder.is_loading

    with caplog.at_level(logging.ERROR, "ottla.consumer"):
        asyncio.run(run())
    assert "ZeroDivisionError" in caplog.text


def test_without_the_extra_everything_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.async_consumer.decoding.missing_packages", lambda extra: ["pyarrow"])

    async def run() -> None:
        (columns,) = LoadingDecoder(asyncio.get_running_loop(), on_loaded=lambda: None)(fetched(10_000))
        assert isinstance(columns, PlainColumns)

    asyncio.run(run())


def test_a_reader_waits_until_the_decoder_is_loaded_or_the_consumer_stops(run: Any, broker: Any, new_topic: Any) -> None:
    topic, gate = new_topic(1), threading.Event()
    broker.produce(topic, [bytes(1_000)] * 40)

    async def test(consumer: Any) -> None:
        consumer._shell.decoder._load = lambda: gate.wait(60)
        waiting = asyncio.create_task(consumer.getone())
        while not consumer._shell.decoder.is_loading:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        assert not waiting.done()
        gate.set()
        assert (await waiting).offset == 0

    run(test, topic, group_id=None)
