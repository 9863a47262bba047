"""Scanned documents of 10 MB, whole, as one message."""

import os

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from ottla.testing import Broker

LARGEST = 12_000_000


class DocumentStore:
    def __init__(self, bootstrap_servers: str) -> None:
        self.servers = {"bootstrap.servers": bootstrap_servers}

    def save(self, topic: str, name: str, document: bytes) -> None:
        errors: list[KafkaError] = []
        producer = Producer({**self.servers, "message.max.bytes": LARGEST})
        producer.produce(topic, document, name, on_delivery=lambda error, _message: errors.append(error) if error else None)
        producer.flush()
        if errors:
            raise KafkaException(errors[0])

    def next(self, topic: str) -> tuple[bytes, bytes]:
        # A consumer needs no setting: the first message of a response comes whole, however large.
        consumer = Consumer({**self.servers, "group.id": "archive", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        (message,) = consumer.consume(1, timeout=30)
        consumer.close()
        return message.key(), message.value()


def test_a_document_of_10_mb_arrives_whole(ottla_broker: Broker) -> None:
    document = os.urandom(10_000_000)
    ottla_broker.create_topic("scans", config={"max.message.bytes": LARGEST})
    store = DocumentStore(ottla_broker.bootstrap_servers)
    store.save("scans", "contract.pdf", document)
    assert store.next("scans") == (b"contract.pdf", document)
    (record,) = ottla_broker.consume("scans", 1)
    assert record.value == document
    ottla_broker.produce("scans", [document])
    assert ottla_broker.values("scans") == [document, document]


def test_a_topic_with_the_default_limit_refuses_it(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("letters")
    with pytest.raises(KafkaException) as refused:
        DocumentStore(ottla_broker.bootstrap_servers).save("letters", "contract.pdf", os.urandom(10_000_000))
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert ottla_broker.values("letters") == []
