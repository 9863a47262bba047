"""Invoices with FastStream and pydantic; what is not an order goes to a topic of its own."""

import asyncio
import json

import pytest

from ottla.testing import Broker

pytest.importorskip("faststream", reason="faststream[kafka] is not installed")

from faststream.kafka import KafkaBroker
from pydantic import BaseModel, ValidationError


class Order(BaseModel):
    customer: str
    cents: int


class Invoice(BaseModel):
    customer: str
    total: str


def invoice_service(bootstrap_servers: str) -> KafkaBroker:
    broker = KafkaBroker(bootstrap_servers)
    rejected = broker.publisher("orders.rejected")
    invoices = broker.publisher("invoices")

    @broker.subscriber("orders", group_id="invoices", auto_offset_reset="earliest")
    async def write_invoice(body: dict[str, object]) -> None:
        try:
            order = Order.model_validate(body)
        except ValidationError:
            await rejected.publish(body)
        else:
            total = f"{order.cents / 100:.2f} EUR"
            await invoices.publish(Invoice(customer=order.customer, total=total), key=order.customer.encode())

    return broker


def test_orders_become_invoices() -> None:
    async def run() -> None:
        async with Broker() as broker:
            for topic in ("orders", "orders.rejected", "invoices"):
                broker.create_topic(topic)
            orders = [{"customer": "ann", "cents": 1250}, {"customer": "bob"}, {"customer": "cem", "cents": 5}]
            broker.produce("orders", [json.dumps(order) for order in orders])
            service = invoice_service(broker.bootstrap_servers)
            async with service:
                await service.start()
                invoices = await asyncio.to_thread(broker.consume, "invoices", 2)
                rejected = await asyncio.to_thread(broker.consume, "orders.rejected", 1)
            assert [(record.key, json.loads(record.value)["total"]) for record in invoices] == [(b"ann", "12.50 EUR"), (b"cem", "0.05 EUR")]
            assert [json.loads(record.value) for record in rejected] == [{"customer": "bob"}]

    asyncio.run(run())
