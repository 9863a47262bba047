"""The recipe for aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from ottla.testing import Broker


async def double(bootstrap_servers: str, count: int) -> None:
    """The application: doubles `count` orders."""
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=bootstrap_servers, group_id="doubler", auto_offset_reset="earliest")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer, consumer:
        for _ in range(count):
            order = await consumer.getone()
            await producer.send_and_wait("doubled", b"%d" % (2 * int(order.value)))


def test_aiokafka() -> None:
    async def run() -> None:
        async with Broker() as broker:
            broker.produce("orders", [b"1", b"2"])
            application = asyncio.create_task(double(broker.bootstrap_servers, 2))
            doubled = await broker.consume_async("doubled", 2)
            assert [record.value for record in doubled] == [b"2", b"4"]
            await application
            assert broker.group("doubler").committed() == {("orders", 0): 2}

    asyncio.run(run())
