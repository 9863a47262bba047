"""Error codes from the wire, also those of a later Kafka."""

from ottla.client.errors import BrokerUnavailableError, ClientError, RequestFailedError, error_code
from ottla.protocol.errors import ErrorCode


def test_codes_from_the_wire():
    assert error_code(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_code(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_one_class_catches_them_all():
    assert issubclass(BrokerUnavailableError, ClientError)
    assert RequestFailedError("no", ErrorCode.INVALID_REQUEST).code is ErrorCode.INVALID_REQUEST
