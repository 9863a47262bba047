"""Errors: aiokafka's names, codes and properties."""

import aiokafka.errors
import pytest

from ottla.client.async_consumer import errors
from ottla.client.async_consumer.errors import BrokerResponseError, CommitFailedError, KafkaError, UnknownError, error_of, for_code
from ottla.protocol.errors import ErrorCode

OURS = {name: each for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}


@pytest.mark.parametrize("name", sorted(OURS))
def test_each_is_one_of_aiokafkas(name: str) -> None:
    ours, theirs = OURS[name], getattr(aiokafka.errors, name)
    for attribute in ("retriable", "invalid_metadata", "errno"):
        assert getattr(ours, attribute, None) == getattr(theirs, attribute, None), attribute
    assert issubclass(ours, KafkaError) == issubclass(theirs, aiokafka.errors.KafkaError)
    assert issubclass(ours, BrokerResponseError) == issubclass(theirs, aiokafka.errors.BrokerResponseError)


def test_codes_and_texts() -> None:
    assert for_code(26) is errors.InvalidSessionTimeoutError
    assert for_code(4711) is UnknownError
    assert str(error_of(ErrorCode.INVALID_SESSION_TIMEOUT)) == "[Error 26] InvalidSessionTimeoutError: Invalid session timeout"
    assert str(error_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t")) == "[Error 29] TopicAuthorizationFailedError: t"
    assert str(error_of(ErrorCode.FENCED_INSTANCE_ID)).startswith("[Error -1] UnknownError: FENCED_INSTANCE_ID: Static consumer")
    assert (errors.OffsetOutOfRangeError.errno, errors.OffsetOutOfRangeError.message) == (1, "OFFSET_OUT_OF_RANGE")
    assert str(KafkaError()) == "KafkaError"
    assert "the group has rebalanced" in str(CommitFailedError())
    assert "another member" not in str(CommitFailedError(is_rebalancing=True))
