"""Questions to the cluster in a thread: answers, errors by aiokafka's names, and an end."""

import asyncio
import threading
from typing import Any

import pytest

from ottla.client.async_consumer.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError
from ottla.client.async_consumer.lookups import Lookups
from ottla.client.errors import BrokerUnavailableError, RequestFailedError, UnknownTopicError
from ottla.client.network.connector import connect
from ottla.client.settings import ClientSettings
from ottla.core.errors import ErrorCode, PeerError


def ask(call: Any, address: str = "127.0.0.1:1", timeout_ms: int = 50) -> Any:
    async def run() -> Any:
        lookups = Lookups(ClientSettings(bootstrap_servers=address), connect=connect, timeout_ms=timeout_ms)
        try:
            return await lookups.ask(call)
        finally:
            await lookups.stop()
            await lookups.stop()

    return asyncio.run(run())


def fail(error: Exception) -> Any:
    def call(admin: Any) -> None:
        raise error

    return call


def test_an_answer(broker: Any) -> None:
    before = threading.active_count()
    assert isinstance(ask(lambda admin: admin.list_topics(), broker.bootstrap_servers, 10_000), dict)
    assert threading.active_count() == before


def test_no_answer_in_time() -> None:
    with pytest.raises(KafkaTimeoutError, match="Timed out"):
        ask(lambda admin: admin.list_topics())


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (RequestFailedError("no", ErrorCode.TOPIC_AUTHORIZATION_FAILED), "TopicAuthorizationFailedError"),
        (UnknownTopicError("topic t does not exist"), "UnknownTopicOrPartitionError"),
        (BrokerUnavailableError("gone"), "KafkaConnectionError"),
        (PeerError("nonsense"), "KafkaError"),
    ],
)
def test_errors(error: Exception, raised: str) -> None:
    with pytest.raises(KafkaError) as found:
        ask(fail(error))
    assert type(found.value).__name__ == raised
    assert issubclass(UnknownTopicOrPartitionError, KafkaError)
    assert issubclass(KafkaConnectionError, KafkaError)
