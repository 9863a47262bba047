"""Orders go into a database in batches; an offset is committed when its batch is in the database, and not before."""

import sqlite3
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException

from ottla.testing import Broker


def load_orders(bootstrap_servers: str, database: sqlite3.Connection, count: int, batch: int = 10) -> None:
    """Read `count` orders into the table `orders`; an order that is not a number ends it."""
    settings = {"group.id": "loader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, **settings})
    consumer.subscribe(["orders"])
    try:
        while count > 0:
            messages = consumer.consume(min(batch, count), timeout=30)
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
            with database:
                database.executemany("insert into orders values (?, ?)", [(message.offset(), int(message.value())) for message in messages])
            consumer.commit(asynchronous=False)
            count -= len(messages)
    finally:
        consumer.close()


@pytest.fixture
def database(tmp_path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(tmp_path / "orders.db")
    connection.execute("create table orders (offset integer primary key, amount integer)")
    return connection


def test_a_batch_that_fails_is_read_again(ottla_broker: Broker, database: sqlite3.Connection) -> None:
    ottla_broker.produce("orders", [str(number) for number in range(25)] + ["not a number"])
    with pytest.raises(ValueError, match="not a number"):
        load_orders(ottla_broker.bootstrap_servers, database, 26)
    loader = ottla_broker.group("loader")
    assert loader.committed() == {("orders", 0): 20}
    loader.wait(state="Empty", lag=6)
    assert database.execute("select count(*) from orders").fetchone() == (20,)

    load_orders(ottla_broker.bootstrap_servers, database, 5, batch=5)
    assert loader.committed() == {("orders", 0): 25}
    assert database.execute("select count(*), sum(amount) from orders").fetchone() == (25, 300)
