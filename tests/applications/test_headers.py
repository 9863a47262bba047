"""The trace id of a request travels in headers from service to service."""

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Event

from confluent_kafka import Consumer, KafkaException, Producer

from ottla.testing import Broker


def resize_images(bootstrap_servers: str, stopping: Event) -> None:
    """Answers each upload with a thumbnail, in the same trace; an upload without a trace begins one."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "resizer", "auto.offset.reset": "earliest"})
    consumer.subscribe(["uploads"])
    while not stopping.is_set():
        for message in consumer.consume(1, timeout=0.1):
            if message.error():
                raise KafkaException(message.error())
            headers = [header for header in message.headers() or [] if header[0] != "hop"]
            if "trace-id" not in dict(headers):
                headers.append(("trace-id", uuid.uuid4().hex.encode()))
            hops = [header for header in message.headers() or [] if header[0] == "hop"]
            producer.produce("thumbnails", message.value()[:3], headers=[*headers, *hops, ("hop", b"resizer")])
            producer.flush()
    consumer.close()


def test_a_trace_goes_through_the_service(ottla_broker: Broker, running: Callable[..., AbstractContextManager[None]]) -> None:
    ottla_broker.produce("uploads", [b"a large image"], headers={"trace-id": "4bf92f", "content-type": b"image/png", "hop": "web"})
    ottla_broker.produce("uploads", [b"another one"])
    with running(lambda stopping: resize_images(ottla_broker.bootstrap_servers, stopping)):
        traced, untraced = ottla_broker.consume("thumbnails", 2)
    assert list(traced.headers) == [("trace-id", b"4bf92f"), ("content-type", b"image/png"), ("hop", b"web"), ("hop", b"resizer")]
    assert [name for name, _ in untraced.headers] == ["trace-id", "hop"]
    assert len(dict(untraced.headers)["trace-id"]) == 32
