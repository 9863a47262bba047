"""The state table of a connection of a SASL listener: what each state accepts, and where it leads. Kafka's SaslAuthenticatorTest."""

from collections.abc import Mapping

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.security.access import Principal
from ottla.security.authentication import Answer, Authentication, Mechanism, State
from ottla.security.sasl_server import PlainServer, SaslServer
from ottla.security.scram import plain

HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA = 17, 18, 36, 3
RIGHT, WRONG = plain("alice", "secret"), plain("alice", "wrong")
ALICE = Principal("User", "alice")


class Expiring(PlainServer):
    """As a token: what the client shows expires at 10,000 ms by the wall clock."""

    expires_at_ms = 10_000


def authentication(*, reauthentication_ms: int = 0, kind: type[PlainServer] = PlainServer) -> Authentication:
    def begin() -> SaslServer:
        return kind({"alice": "secret", "bob": "secret"})

    mechanisms: Mapping[str, Mechanism] = {name: Mechanism(begin, reauthentication_ms) for name in ("PLAIN", "OTHER")}
    return Authentication(mechanisms)


def in_state(state: State) -> Authentication:
    found = authentication(reauthentication_ms=60_000)
    if state in (State.HANDSHAKE, State.EXCHANGE, State.COMPLETE, State.REAUTHENTICATION):
        found.versions_answered()
    if state is State.TOKENS:
        found.handshake("PLAIN", 0, 0)
    if state in (State.EXCHANGE, State.COMPLETE, State.REAUTHENTICATION):
        found.handshake("PLAIN", 1, 0)
    if state in (State.COMPLETE, State.REAUTHENTICATION):
        found.authenticate(RIGHT, 0, 0)
    if state is State.REAUTHENTICATION:
        found.handshake("PLAIN", 1, 2_000)
    if state is State.FAILED:
        found.handshake("UNKNOWN", 1, 0)
    assert found.state is state
    return found


@pytest.mark.parametrize("state", State)
def test_what_each_state_accepts(state: State) -> None:
    accepted = {
        State.INITIAL: {VERSIONS, HANDSHAKE},
        State.HANDSHAKE: {HANDSHAKE},
        State.EXCHANGE: {AUTHENTICATE},
        State.REAUTHENTICATION: {AUTHENTICATE},
        State.COMPLETE: {HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA},
    }.get(state, set())
    found = in_state(state)
    assert {key for key in (HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA) if found.problem(key, 0) is None} == accepted


@pytest.mark.parametrize("version", [0, 1])
def test_it_is_complete_with_the_right_password(version: int) -> None:
    found = authentication()
    assert found.handshake("PLAIN", version, 0) is ErrorCode.NONE
    assert found.authenticate(RIGHT, 0, 0) == Answer(ErrorCode.NONE, None, b"", 0)
    assert (found.state, found.principal, found.ends_at_ms) == (State.COMPLETE, ALICE, None)


def test_it_fails_with_a_wrong_password_and_an_unknown_mechanism() -> None:
    found = authentication()
    found.handshake("PLAIN", 1, 0)
    answer = found.authenticate(WRONG, 0, 0)
    assert answer is not None
    assert (answer.error, answer.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed: Invalid username or password")
    assert (found.state, found.principal) == (State.FAILED, None)
    found = authentication()
    assert found.handshake("plain", 1, 0) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert found.state is State.FAILED


def test_tokens_outside_of_an_exchange() -> None:
    found = in_state(State.COMPLETE)
    answer = found.authenticate(RIGHT, 0, 0)
    assert answer is not None
    assert answer.error is ErrorCode.ILLEGAL_SASL_STATE
    assert found.state is State.COMPLETE


@pytest.mark.parametrize(
    ("kind", "reauthentication_ms", "wall_ms", "lifetime_ms"),
    [
        (PlainServer, 0, 0, 0),
        (PlainServer, 5_000, 0, 5_000),
        (Expiring, 0, 4_000, 6_000),
        (Expiring, 5_000, 4_000, 5_000),
        (Expiring, 0, 10_001, 0),
    ],
)
def test_how_long_a_session_lasts(kind: type[PlainServer], reauthentication_ms: int, wall_ms: int, lifetime_ms: int) -> None:
    found = authentication(kind=kind, reauthentication_ms=reauthentication_ms)
    found.handshake("PLAIN", 1, 100)
    answer = found.authenticate(RIGHT, 100, wall_ms)
    assert answer is not None
    assert answer.lifetime_ms == lifetime_ms
    lasts = kind is PlainServer and not reauthentication_ms
    assert found.ends_at_ms == (None if lasts else 100 + lifetime_ms)
    assert (found.problem(METADATA, 100 + lifetime_ms) is None) == lasts
    assert lifetime_ms == 0 or found.problem(METADATA, 99 + lifetime_ms) is None
    assert found.problem(HANDSHAKE, 100 + lifetime_ms) is None, "an ended session may authenticate again"


def test_a_client_authenticates_again() -> None:
    found = in_state(State.REAUTHENTICATION)
    answer = found.authenticate(RIGHT, 2_000, 0)
    assert answer == Answer(ErrorCode.NONE, None, b"", 60_000)
    assert (found.state, found.ends_at_ms) == (State.COMPLETE, 62_000)


def test_what_a_client_cannot_do_again() -> None:
    another = in_state(State.REAUTHENTICATION).authenticate(plain("bob", "secret"), 2_000, 0)
    assert another is not None
    assert another.message == "Cannot change principals during re-authentication from User:alice to User:bob"
    found = in_state(State.COMPLETE)
    assert found.handshake("PLAIN", 1, 999) is ErrorCode.ILLEGAL_SASL_STATE
    assert found.state is State.COMPLETE
    assert found.handshake("OTHER", 1, 1_000) is ErrorCode.NONE
    assert found.authenticate(RIGHT, 1_000, 0) is None, "as in Kafka, it is closed at the first token"
    found = in_state(State.COMPLETE)
    assert found.handshake("PLAIN", 0, 1_000) is ErrorCode.ILLEGAL_SASL_STATE
    assert found.state is State.FAILED
    endless = authentication()
    endless.handshake("PLAIN", 1, 0)
    endless.authenticate(RIGHT, 0, 0)
    assert endless.handshake("PLAIN", 1, 5_000) is ErrorCode.ILLEGAL_SASL_STATE
