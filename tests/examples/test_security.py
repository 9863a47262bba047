"""Tests of an application whose broker asks who it is: it logs in, and says so where it is refused."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla.testing import SecuredBroker


def test_orders_are_read_after_a_login(ottla_broker_sasl: SecuredBroker) -> None:
    ottla_broker_sasl.produce("orders", [b"one"])
    settings = ottla_broker_sasl.client_settings("confluent-kafka", mechanism="SCRAM-SHA-512")
    consumer = Consumer({"group.id": "billing", "auto.offset.reset": "earliest", **settings})
    consumer.subscribe(["orders"])
    assert [message.value() for message in consumer.consume(1, 10)] == [b"one"]
    consumer.close()


def test_an_expired_certificate_is_refused(ottla_broker_tls: SecuredBroker) -> None:
    expired = ottla_broker_tls.authority.issue("CN=alice", days=-1)
    refused: list[str] = []
    settings = ottla_broker_tls.client_settings("confluent-kafka", listener="MTLS", certificate=expired)
    client = AdminClient({**settings, "error_cb": lambda error: refused.append(error.str()), "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    client.poll(0)
    assert "certificate expired" in " ".join(refused)


def test_tokens_are_taken_after_a_restart_of_the_broker(ottla_broker_sasl: SecuredBroker) -> None:
    ottla_broker_sasl.restart()
    producer = Producer(ottla_broker_sasl.client_settings("confluent-kafka", mechanism="OAUTHBEARER"))
    producer.produce("orders", b"one")
    assert producer.flush(10) == 0
    assert ottla_broker_sasl.values("orders") == [b"one"]
