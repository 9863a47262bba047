"""Failures in the words of Kafka's tools, and clients' settings from a file."""

from pathlib import Path

import pytest

from ottla.cli.clusters import CommandFailed, client_settings, message, named, of_error
from ottla.client.admin.values import Failure
from ottla.client.deadlines import DeadlineExceededError
from ottla.client.errors import BrokerUnavailableError, RequestFailedError
from ottla.client.security.properties import PLAINTEXT, SecuritySettings
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode, PeerError


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


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'


def test_no_file() -> None:
    assert client_settings("a:1", None, client_id="me") == ClientSettings(bootstrap_servers="a:1", client_id="me")


def test_what_is_no_setting_of_ours_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=plaintext\nrequest.timeout.ms=5000\ngroup.id=x\nbootstrap.servers=elsewhere:1\nisolation.level=no\n")
    settings = client_settings("a:1", str(path), client_id="me")
    assert settings == ClientSettings(bootstrap_servers="a:1", client_id="me", request_timeout_ms=5_000, security=PLAINTEXT)
    path.write_text("client.id=you")
    assert client_settings("a:1", str(path), client_id="me").client_id == "you"


def test_security_is_taken_as_it_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n")
    security = client_settings("a:1", str(path), client_id="me").security
    assert security == SecuritySettings(protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="u", password="p")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("security.protocol=SASL_SSL", "sasl.mechanism must be one of"),
        ("ssl.truststore.location=/x", "ssl.truststore.type must be PEM"),
        ("security.providers=x", "security.providers is not supported"),
        ("request.timeout.ms=x", "request.timeout.ms must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, line: str, sentence: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"client.id=me\n{line}\n")
    with pytest.raises(CommandFailed, match=f"{path}: {sentence}"):
        client_settings("a:1", str(path), client_id="me")


def test_servers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("")
    with pytest.raises(ValueError, match="'x' is no host:port"):
        client_settings("x", str(path), client_id="me")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"java\.nio\.file\.NoSuchFileException: /no/such/file"):
        client_settings("a:1", "/no/such/file", client_id="me")
    with pytest.raises(CommandFailed, match="Is a directory"):
        client_settings("a:1", str(tmp_path), client_id="me")
