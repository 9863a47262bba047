"""A price service with aiokafka, which answers requests on the topic that they name."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from ottla.testing import Broker

PRICES = {b"apple": b"30", b"pear": b"45"}


class PriceService:
    """`async with`: answers requests in `price-requests` until the end of the block."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.consumer = AIOKafkaConsumer(
            "price-requests", bootstrap_servers=bootstrap_servers, group_id="prices", auto_offset_reset="earliest", enable_auto_commit=False
        )
        self.producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)

    async def __aenter__(self) -> "PriceService":
        await self.producer.start()
        await self.consumer.start()
        self.task = asyncio.create_task(self.answer())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.stop()
        await self.producer.stop()

    async def answer(self) -> None:
        while True:
            batches = await self.consumer.getmany(timeout_ms=100)
            for request in (request for batch in batches.values() for request in batch):
                headers = dict(request.headers)
                price = PRICES.get(request.value, b"unknown")
                answer = [("correlation-id", headers["correlation-id"])]
                await self.producer.send_and_wait(headers["reply-to"].decode(), price, headers=answer)
            if batches:
                await self.consumer.commit()


def test_every_request_gets_its_answer() -> None:
    async def run() -> None:
        async with Broker(config={"num.partitions": 2}) as broker:
            for number, article in enumerate([b"apple", b"pear", b"stone"]):
                broker.produce("price-requests", [article], headers={"correlation-id": str(number), "reply-to": "shop-1"})
            async with PriceService(broker.bootstrap_servers):
                answers = await asyncio.to_thread(broker.consume, "shop-1", 3)
                await asyncio.to_thread(broker.group("prices").wait, state="Stable", lag=0)
            assert {dict(answer.headers)["correlation-id"]: answer.value for answer in answers} == {
                b"0": b"30",
                b"1": b"45",
                b"2": b"unknown",
            }

    asyncio.run(run())
