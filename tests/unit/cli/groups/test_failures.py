"""Failures in the words of Kafka's tools."""

import pytest

from ottla.cli.groups.failures import message, named, of_error
from ottla.client.admin.values import Failure
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import BrokerUnavailableError, RequestFailedError
from ottla.core.errors import ErrorCode, PeerError


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, "GroupIdNotFoundException"),
        (ErrorCode.NON_EMPTY_GROUP, "GroupNotEmptyException"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UnknownTopicOrPartitionException"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "UnknownServerException"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "GroupAuthorizationException"),
        (ErrorCode.REQUEST_TIMED_OUT, "TimeoutException"),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, "OffsetMetadataTooLarge"),
    ],
)
def test_codes_have_the_names_of_kafkas_exceptions(code: ErrorCode, name: str) -> None:
    assert named(Failure(code)).startswith(f"org.apache.kafka.common.errors.{name}: ")


def test_the_brokers_own_sentence_goes_first() -> None:
    assert message(Failure(ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")) == "Group g not found."
    assert message(Failure(ErrorCode.GROUP_ID_NOT_FOUND)) == "The group id does not exist."
    assert message(Failure(ErrorCode.POLICY_VIOLATION)) == "The broker answered POLICY_VIOLATION."


def test_what_the_client_raises() -> None:
    late = of_error(DeadlineExceededError("listGroups", 0, None))
    assert late == "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listGroups"
    assert of_error(RequestFailedError("what: NON_EMPTY_GROUP", ErrorCode.NON_EMPTY_GROUP)).endswith("Exception: The group is not empty.")
    assert of_error(BrokerUnavailableError("no broker")) == "no broker"
    assert of_error(PeerError("nonsense")) == "nonsense"
