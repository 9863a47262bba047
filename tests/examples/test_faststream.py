"""The recipe for FastStream: its real broker, in place of TestKafkaBroker."""

import asyncio

import pytest

from ottla.testing import Broker

pytest.importorskip("faststream", reason="faststream[confluent] is not installed")

from faststream.confluent import KafkaBroker


def test_faststream() -> None:
    async def run() -> None:
        async with Broker() as broker:
            app = KafkaBroker(broker.bootstrap_servers)

            @app.subscriber("orders", group_id="doubler", auto_offset_reset="earliest")
            @app.publisher("doubled")
            async def double(order: int) -> int:
                return 2 * order

            broker.create_topic("orders")
            broker.produce("orders", [b"1", b"2"])
            async with app:
                await app.start()
                doubled = await broker.consume_async("doubled", 2)
            assert [record.value for record in doubled] == [b"2", b"4"]

    asyncio.run(run())
