"""Users of SCRAM in the metadata log, and what may be changed of them: Kafka's AlterUserScramCredentialsRequestTest."""

import pytest

from ottla.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord, decode, encode
from ottla.metadata.scram_credentials import ScramCredentials, Upsertion, alter_scram, described_scram
from ottla.protocol.errors import ErrorCode

RECORD = UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)


def keys(mechanism: str, salted: bytes) -> tuple[bytes, bytes]:
    return f"stored {mechanism}".encode() + salted, b"server"


@pytest.fixture
def credentials() -> ScramCredentials:
    made = ScramCredentials()
    made.replay(RECORD)
    return made


def test_records_as_kraft_writes_them() -> None:
    assert encode(RECORD) == bytes.fromhex("01 0b 00 06 616c696365 01 02 73 02 6b 02 76 00001000 00")
    removal = RemoveUserScramCredentialRecord(name="alice", mechanism=1)
    assert encode(removal) == bytes.fromhex("01 16 00 06 616c696365 01 00")
    assert [decode(encode(each)) for each in (RECORD, removal)] == [RECORD, removal]


def test_credentials_are_found_by_mechanism_and_user(credentials: ScramCredentials) -> None:
    assert credentials.of("SCRAM-SHA-256", "alice") == (b"s", b"k", b"v", 4096)
    assert credentials.of("SCRAM-SHA-512", "alice") is None
    credentials.replay(RemoveUserScramCredentialRecord(name="alice", mechanism=1))
    assert credentials.of("SCRAM-SHA-256", "alice") is None
    assert not credentials.users


def test_what_may_be_changed_is_one_batch(credentials: ScramCredentials) -> None:
    upsertion = Upsertion("bob", 2, 8192, b"salt", b"salted")
    results, records = alter_scram(credentials, [("alice", 1)], [upsertion], keys)
    assert results == {"alice": None, "bob": None}
    assert records == [
        RemoveUserScramCredentialRecord(name="alice", mechanism=1),
        UserScramCredentialRecord(
            name="bob", mechanism=2, salt=b"salt", stored_key=b"stored SCRAM-SHA-512salted", server_key=b"server", iterations=8192
        ),
    ]


@pytest.mark.parametrize(
    ("deletions", "upsertions", "errors"),
    [
        ([("", 1)], [], [ErrorCode.UNACCEPTABLE_CREDENTIAL]),
        ([("alice", 9)], [], [ErrorCode.UNSUPPORTED_SASL_MECHANISM]),
        ([("alice", 2)], [], [ErrorCode.RESOURCE_NOT_FOUND]),
        ([("alice", 1), ("alice", 1)], [], [ErrorCode.DUPLICATE_RESOURCE]),
        ([("alice", 1)], [Upsertion("alice", 2, 4096, b"", b"")], [ErrorCode.DUPLICATE_RESOURCE]),
        ([], [Upsertion("bob", 1, 4095, b"", b"")], [ErrorCode.UNACCEPTABLE_CREDENTIAL]),
        ([], [Upsertion("bob", 1, 16385, b"", b"")], [ErrorCode.UNACCEPTABLE_CREDENTIAL]),
        ([], [Upsertion("bob", 0, 4096, b"", b"")], [ErrorCode.UNSUPPORTED_SASL_MECHANISM]),
    ],
)  # fmt: skip
def test_what_is_refused(
    credentials: ScramCredentials, deletions: list[tuple[str, int]], upsertions: list[Upsertion], errors: list[ErrorCode]
) -> None:
    results, records = alter_scram(credentials, deletions, upsertions, keys)
    assert [error and error.error for error in results.values()] == errors
    assert records == []


def test_a_description_has_no_secret(credentials: ScramCredentials) -> None:
    assert list(described_scram(credentials, None)) == [("alice", None, [(1, 4096)])]
    found = {name: error and error.error for name, error, _ in described_scram(credentials, ["alice", "nobody", "bob", "bob"])}
    assert found == {"alice": None, "nobody": ErrorCode.RESOURCE_NOT_FOUND, "bob": ErrorCode.DUPLICATE_RESOURCE}
