"""KafkaError and KafkaException, held to confluent-kafka's."""

import confluent_kafka
import pytest

from ottla.client.consumer.kafka_errors import CODES, KafkaError, KafkaException, ValueDeserializationError, WakeupException, exception
from ottla.client.reactions import HEARTBEAT, JOIN, SYNC


@pytest.mark.parametrize("code", CODES)
def test_errors_are_those_of_confluent_kafka(code: int) -> None:
    ours, theirs = KafkaError(code), confluent_kafka.KafkaError(code)
    assert (ours.code(), ours.name(), ours.str(), ours.fatal()) == (theirs.code(), theirs.name(), theirs.str(), theirs.fatal())
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)
    assert getattr(KafkaError, ours.name()) == code == getattr(confluent_kafka.KafkaError, theirs.name())


def test_every_code_is_there() -> None:
    codes = [name for name in dir(confluent_kafka.KafkaError) if isinstance(getattr(confluent_kafka.KafkaError, name), int)]
    assert [name for name in codes if getattr(KafkaError, name) != getattr(confluent_kafka.KafkaError, name)] == []
    assert set(codes) <= set(dir(KafkaError))


def test_errors_compare_with_numbers_and_with_those_of_confluent_kafka() -> None:
    assert KafkaError(3) == 3 == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert KafkaError(3) == confluent_kafka.KafkaError(3)
    assert KafkaError(3) != KafkaError(5)
    assert len({KafkaError(3), KafkaError(3)}) == 1
    assert KafkaError(-1) < KafkaError(3)


def test_reasons_and_flags() -> None:
    error = KafkaError(KafkaError._FATAL, "why", fatal=True)
    assert (error.str(), error.fatal(), error.retriable(), error.txn_requires_abort()) == ("why", True, False, False)
    assert repr(error).startswith("KafkaError{FATAL,code=_FATAL")
    assert not KafkaError(KafkaError.NOT_COORDINATOR).retriable()
    in_order = KafkaError(3, "why", True, True, True)
    assert (in_order.fatal(), in_order.retriable(), in_order.txn_requires_abort()) == (True, True, True)
    assert KafkaError(9_999).name() == "ERR_9999?"
    with pytest.raises(AttributeError):
        _ = KafkaError.NO_SUCH_CODE


def test_exceptions() -> None:
    with pytest.raises(KafkaException, match="Commit failed: Local: No offset stored") as raised:
        raise exception(KafkaError._NO_OFFSET, "Commit failed")
    assert raised.value.args[0].code() == -168


def test_a_wakeup_is_a_kafka_exception_with_a_code() -> None:
    with pytest.raises(KafkaException) as raised:
        raise WakeupException
    assert raised.value.args[0].code() == KafkaError._INTR


def test_a_message_that_cannot_be_deserialised() -> None:
    cause = ValueError("no")
    error = ValueDeserializationError(KafkaError(KafkaError._VALUE_DESERIALIZATION, "no"), cause, "message")
    assert (error.code, error.name, error.exception, error.kafka_message) == (-159, "_VALUE_DESERIALIZATION", cause, "message")
    assert isinstance(error, KafkaException)


def test_every_error_of_a_consumer_has_a_name() -> None:
    assert [code.name for table in (JOIN, SYNC, HEARTBEAT) for code in table.named if code not in CODES] == []
