"""The table of error codes. Its names and texts are held to confluent-kafka's in test_kafka_errors."""

from ottla.client.consumer.error_codes import CODES
from ottla.core.client.group.error_reactions import HEARTBEAT, JOIN, SYNC


def test_every_error_of_a_consumer_has_a_name() -> None:
    assert [code.name for table in (JOIN, SYNC, HEARTBEAT) for code in table if code not in CODES] == []
