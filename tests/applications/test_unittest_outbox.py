"""The outbox pattern, tested with unittest: rows become messages, and none is sent twice."""

import json
import sqlite3

from confluent_kafka import Producer

from ottla.testing import OttlaCase


class Outbox:
    """Events are rows of the application's own transaction; `publish` sends them and marks them as sent."""

    def __init__(self, database: sqlite3.Connection, bootstrap_servers: str) -> None:
        self.database = database
        self.producer = Producer({"bootstrap.servers": bootstrap_servers})
        database.execute("create table outbox (id integer primary key, topic text, key text, body text, sent integer default 0)")

    def add(self, topic: str, key: str, event: dict[str, object]) -> None:
        self.database.execute("insert into outbox (topic, key, body) values (?, ?, ?)", (topic, key, json.dumps(event)))

    def publish(self) -> int:
        """Send what was not sent; the number of events that arrived."""
        arrived: list[int] = []
        for row, topic, key, body in self.database.execute("select id, topic, key, body from outbox where not sent order by id").fetchall():

            def delivered(error: object, _message: object, row: int = row) -> None:
                if error is None:
                    arrived.append(row)

            self.producer.produce(topic, body, key, on_delivery=delivered)
        self.producer.flush()
        self.database.executemany("update outbox set sent = 1 where id = ?", [(row,) for row in arrived])
        return len(arrived)


class OutboxTest(OttlaCase):
    ottla_config = {"num.partitions": 2}

    def setUp(self) -> None:
        super().setUp()
        database = sqlite3.connect(":memory:")
        self.addCleanup(database.close)
        self.outbox = Outbox(database, self.ottla_broker.bootstrap_servers)

    def test_events_are_published_once_and_in_the_order_of_their_key(self) -> None:
        for number in range(4):
            self.outbox.add("customers", "ann", {"change": number})
            self.outbox.add("customers", "bob", {"change": number})
        assert self.outbox.publish() == 8
        assert self.outbox.publish() == 0
        records = self.ottla_broker.consume("customers", 8)
        for customer in (b"ann", b"bob"):
            changes = [json.loads(record.value)["change"] for record in records if record.key == customer]
            assert changes == [0, 1, 2, 3]

    def test_what_the_broker_refuses_stays_in_the_outbox(self) -> None:
        self.ottla_broker.create_topic("customers", config={"max.message.bytes": 200})
        self.outbox.add("customers", "ann", {"change": "a" * 200})
        self.outbox.add("customers", "bob", {"change": 1})
        assert self.outbox.publish() == 1
        assert self.ottla_broker.values("customers") == [b'{"change": 1}']
        assert self.outbox.publish() == 0
