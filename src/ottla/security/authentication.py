"""What a connection of a SASL listener may send, and when its client is who it says: Kafka's state table of a connection. Pure.

| state | accepted | everything else |
|---|---|---|
| INITIAL: nothing yet, or only ApiVersions that failed | ApiVersions, SaslHandshake | closed |
| HANDSHAKE: ApiVersions was answered | SaslHandshake | closed, for a second ApiVersions too |
| EXCHANGE: after SaslHandshake v1 | SaslAuthenticate | ILLEGAL_SASL_STATE, then FAILED |
| TOKENS: after SaslHandshake v0 | frames that are a token each, without a header | closed without an answer |
| COMPLETE | every API; SaslHandshake: a re-authentication (KIP-368), or ILLEGAL_SASL_STATE | closed when the session has ended |
| REAUTHENTICATION: after its SaslHandshake | SaslAuthenticate | ILLEGAL_SASL_STATE, then FAILED |
| FAILED | nothing: the answer is held back, then the connection is closed (KIP-306) | not read |

Sources: SaslServerAuthenticator; KIP-43, KIP-152, KIP-368, KIP-511.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Principal
from ottla.security.sasl_server import AuthenticationFailed, SaslServer

REAUTHENTICATION_MS_MIN: Final = 1_000
"""A client may not authenticate again so soon after the last time."""


class State(Enum):
    """See the table above."""

    INITIAL = "initial"
    HANDSHAKE = "handshake"
    EXCHANGE = "exchange"
    TOKENS = "tokens"
    COMPLETE = "complete"
    REAUTHENTICATION = "re-authentication"
    FAILED = "failed"


_KEYS: Final = {
    State.INITIAL: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    State.HANDSHAKE: frozenset({ApiKey.SASL_HANDSHAKE}),
    State.EXCHANGE: frozenset({ApiKey.SASL_AUTHENTICATE}),
    State.TOKENS: frozenset[ApiKey](),
    State.REAUTHENTICATION: frozenset({ApiKey.SASL_AUTHENTICATE}),
    State.FAILED: frozenset[ApiKey](),
}

EXCHANGES: Final = frozenset({State.EXCHANGE, State.REAUTHENTICATION})
"""A request that is not part of the exchange is answered here; in other states its connection is closed."""


class Mechanism(NamedTuple):
    """One mechanism of a listener. `begin` starts an exchange; sessions end after `reauthentication_ms`, 0: never."""

    begin: Callable[[], SaslServer]
    reauthentication_ms: int


class Answer(NamedTuple):
    """The answer to a token of the client: an error with its message, or the server's token; 0: the session has no end."""

    error: ErrorCode
    message: str | None
    token: bytes
    lifetime_ms: int


class Authentication:
    """The authentication of one connection. Times are of a clock that never goes back, but `wall_ms` by the wall clock.

    `cause` says why it failed, for the log. `principal` is None until the client is authenticated; `ends_at_ms`: when its session ends,
    None for never.
    """

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self.mechanisms = mechanisms
        self.state = State.INITIAL
        self.principal: Principal | None = None
        self.mechanism = ""
        self.cause = ""
        self._server: SaslServer | None = None
        self.ends_at_ms: int | None = None
        self._authenticated_at_ms = 0

    def problem(self, key: int, now_ms: int) -> str | None:
        """Why a request with this API key closes the connection; None when it may be handled."""
        if self.state is State.COMPLETE:
            if self.ends_at_ms is not None and now_ms >= self.ends_at_ms and key != ApiKey.SASL_HANDSHAKE:
                return "its session has ended, and it did not authenticate again (connections.max.reauth.ms)"
            return None
        if key in _KEYS[self.state]:
            return None
        return f"API {key} in the state {self.state.value} of authentication"

    def interrupt(self, key: ApiKey) -> str:
        """A request of another API in the middle of an exchange ends it; returns the text of its answer, ILLEGAL_SASL_STATE."""
        text = f"Unexpected Kafka request of type {key.name} during SASL authentication."
        self._failed(text, ErrorCode.ILLEGAL_SASL_STATE)
        return text

    def versions_answered(self) -> None:
        """ApiVersions was answered without an error."""
        if self.state is State.INITIAL:
            self.state = State.HANDSHAKE

    def handshake(self, name: str, version: int, now_ms: int) -> ErrorCode:
        """SaslHandshake: a client chooses a mechanism."""
        is_again = self.state is State.COMPLETE
        if is_again:
            if self.ends_at_ms is None or now_ms - self._authenticated_at_ms < REAUTHENTICATION_MS_MIN:
                return ErrorCode.ILLEGAL_SASL_STATE
            if version == 0:
                return self._failed("a re-authentication with SaslHandshake v0", ErrorCode.ILLEGAL_SASL_STATE)
        mechanism = self.mechanisms.get(name)
        if mechanism is None:
            return self._failed("a mechanism that is not enabled (sasl.enabled.mechanisms)", ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if is_again:
            self.state = State.REAUTHENTICATION
            # As in Kafka, another mechanism is found out at the first token.
            self._server = mechanism.begin() if name == self.mechanism else None
            return ErrorCode.NONE
        self.mechanism = name
        self._server = mechanism.begin()
        self.state = State.TOKENS if version == 0 else State.EXCHANGE
        return ErrorCode.NONE

    def _failed(self, cause: str, error: ErrorCode) -> ErrorCode:
        self.state, self.cause = State.FAILED, cause
        return error

    def authenticate(self, token: bytes, now_ms: int, wall_ms: int) -> Answer | None:
        """A token of the client; None: the connection is closed without an answer. Outside of an exchange: ILLEGAL_SASL_STATE."""
        if self.state not in (State.EXCHANGE, State.TOKENS, State.REAUTHENTICATION):
            return Answer(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication", b"", 0)
        if self._server is None:
            self._failed("a re-authentication with another mechanism", ErrorCode.ILLEGAL_SASL_STATE)
            return None
        is_again = self.state is State.REAUTHENTICATION
        try:
            answer = self._server.evaluate(token, wall_ms)
        except AuthenticationFailed as error:
            return self._refusal(error.cause, str(error), is_again=is_again)
        if not self._server.user:
            return Answer(ErrorCode.NONE, None, answer, 0)
        principal = Principal("User", self._server.user)
        if is_again and principal != self.principal:
            message = f"Cannot change principals during re-authentication from {self.principal} to {principal}"
            return self._refusal(f"a re-authentication as another user, {principal.name!r}", message, is_again=True)
        lifetime_ms = self._lifetime_ms(self._server.expires_at_ms, wall_ms)
        self.principal, self.state, self._server = principal, State.COMPLETE, None
        self._authenticated_at_ms = now_ms
        self.ends_at_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        return Answer(ErrorCode.NONE, None, answer, lifetime_ms or 0)

    def _refusal(self, cause: str, message: str, *, is_again: bool) -> Answer:
        """One sentence for all causes of SCRAM, since the cause could tell that a user exists."""
        neutral = (
            f"Authentication failed during {'re-' * is_again}authentication due to invalid credentials with SASL mechanism {self.mechanism}"
        )
        return Answer(self._failed(cause, ErrorCode.SASL_AUTHENTICATION_FAILED), message or neutral, b"", 0)

    def _lifetime_ms(self, expires_at_ms: int | None, wall_ms: int) -> int | None:
        """How long the session lasts: until the token expires, or until the listener wants a re-authentication; None: for ever."""
        longest_ms = self.mechanisms[self.mechanism].reauthentication_ms
        limits = [longest_ms] * (longest_ms > 0) + ([] if expires_at_ms is None else [max(expires_at_ms - wall_ms, 0)])
        return min(limits, default=None)
