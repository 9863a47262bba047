"""Connections of listeners with SASL, and what such a listener checks its clients with.

`ottla.security.authentication` decides what a connection may send. Here are its effects: connections that are closed, the answer that is
held back after a failure (KIP-306), tokens without a header after SaslHandshake v0, and the user of the session.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ottla.broker.network.connection import Connection, Listener
from ottla.broker.network.limits import RepeatedWarning
from ottla.broker.network.refusals import answer_with_error
from ottla.broker.network.token_keys import TokenKeys
from ottla.config import ConfigError
from ottla.config.security_settings import OAUTHBEARER, PLAIN, SERVED_MECHANISMS, ListenerSettings, handler_problem
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import Buffer
from ottla.protocol.wire.request_reading import AT_ONCE_BYTES_MAX
from ottla.security.authentication import EXCHANGES, Authentication, Mechanism, State
from ottla.security.jaas import issuer_options, plain_users
from ottla.security.sasl_server import PlainServer, SaslServer, ScramServer
from ottla.security.token_validation import TokenRules, TokenServer
from ottla.text import printable

log = logging.getLogger(__name__)

_UNSECURED: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"
_KEY_BYTES: Final = 2
_CAUSE_CHARACTERS_MAX: Final = 200
ScramCredentials = Callable[[str, str], tuple[bytes, bytes, bytes, int] | None]
"""The credential of a mechanism and a user: salt, StoredKey, ServerKey, iterations."""


class SaslSettings:
    """SASL of one listener. Raises ConfigError for settings that let nobody in, or everybody. `is_local`: it listens on loopback alone.

    `secret`, the same for all listeners and brokers of the process, makes the salts of SCRAM's users that do not exist.
    """

    def __init__(
        self,
        settings: ListenerSettings,
        scram: ScramCredentials,
        *,
        failure_delay_ms: int,
        clock: Callable[[], int],
        wall_clock: Callable[[], int],
        is_local: bool,
        secret: bytes,
    ) -> None:
        self._settings = settings
        self._scram = scram
        self.clock = clock
        self.wall_clock = wall_clock
        self.failure_delay_s = failure_delay_ms / 1000
        self.bytes_max = settings.number("sasl.server.max.receive.size")
        self.token_keys: TokenKeys | None = None
        self._secret = secret
        names = settings.items("sasl.enabled.mechanisms")
        unknown = [name for name in names if name not in SERVED_MECHANISMS]
        if unknown or not names:
            raise self._problem(
                "sasl.enabled.mechanisms",
                f"{unknown[0] if unknown else 'nothing'} is not served; write some of {', '.join(SERVED_MECHANISMS)}",
            )
        self.mechanisms: Mapping[str, Mechanism] = {
            name: Mechanism(self._begin(name, is_local), settings.number("connections.max.reauth.ms", name)) for name in names
        }
        self.failures = RepeatedWarning(log, lines=20)

    def _begin(self, name: str, is_local: bool) -> Callable[[], SaslServer]:
        problem = handler_problem(lambda setting: self._settings.text(setting, name))
        if problem is not None:
            raise ConfigError(f"listener {self._settings.listener}, {name}: {problem}")
        if name == PLAIN:
            return partial(PlainServer, self._passwords())
        if name == OAUTHBEARER:
            return partial(TokenServer, self._token_rules(is_local))
        credential = partial(self._scram, name)
        return lambda: ScramServer(name, credential, nonce=secrets.token_urlsafe(24), secret=self._secret)

    def _passwords(self) -> Mapping[str, str]:
        name = f"listener.name.{self._settings.listener.lower()}.plain.sasl.jaas.config"
        text = self._settings.own_text("sasl.jaas.config", PLAIN)
        if text is None:
            raise ConfigError(f'PLAIN needs the users of listener {self._settings.listener}: {name}=... user_<name>="<password>";')
        try:
            return plain_users(text)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error

    def _token_rules(self, is_local: bool) -> TokenRules:
        settings = self._settings
        url, handler = settings.text("sasl.oauthbearer.jwks.endpoint.url"), "sasl.server.callback.handler.class"
        audiences, issuer = settings.items("sasl.oauthbearer.expected.audience"), settings.text("sasl.oauthbearer.expected.issuer")
        if settings.text(handler, OAUTHBEARER).rpartition(".")[2] == _UNSECURED:
            if not is_local:
                raise self._problem(handler, "tokens without a signature let everybody be anybody: on a loopback address alone")
        elif not url:
            raise self._problem(
                "sasl.oauthbearer.jwks.endpoint.url",
                f"OAUTHBEARER needs the keys that sign tokens (or, for tests, {handler}=org.apache.kafka.common.security.oauthbearer"
                f".internals.unsecured.{_UNSECURED})",
            )
        else:
            if not (is_local or (audiences and issuer)):
                raise self._problem(
                    "sasl.oauthbearer.expected.audience",
                    "off loopback, sasl.oauthbearer.expected.audience and .issuer must be set: else every token of the issuer lets in",
                )
            self.token_keys = TokenKeys(
                url,
                refresh_ms=settings.number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
                clock_ms=self.clock,
                truststore=self._truststore(),
            )
        return TokenRules(
            verify=None if self.token_keys is None else self.token_keys.verify,
            audiences=audiences,
            issuer=issuer,
            user_claim=settings.text("sasl.oauthbearer.sub.claim.name"),
            scope_claim=settings.text("sasl.oauthbearer.scope.claim.name"),
            clock_skew_s=settings.number("sasl.oauthbearer.clock.skew.seconds") if self.token_keys else 0,
        )

    def _truststore(self) -> Mapping[str, str]:
        text = self._settings.own_text("sasl.jaas.config", OAUTHBEARER)
        try:
            return {} if text is None else issuer_options(text)
        except ValueError as error:
            raise ConfigError(f"listener.name.{self._settings.listener.lower()}.oauthbearer.sasl.jaas.config: {error}") from error

    def _problem(self, name: str, what: str) -> ConfigError:
        return ConfigError(f"listener {self._settings.listener}, {name}: {what}")


class SaslConnection(Connection):
    """A connection whose client has to authenticate before it may use it."""

    __slots__ = ("authentication", "failing", "sasl", "state")

    def __init__(self, listener: Listener, sasl: SaslSettings) -> None:
        super().__init__(listener)
        self.sasl = sasl
        self.authentication = Authentication(sasl.mechanisms)
        self.state = self.authentication.state
        self.failing: asyncio.TimerHandle | None = None
        self.frame_bytes_max = min(sasl.bytes_max, listener.frame_bytes_max)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A socket is open."""
        super().connection_made(transport)
        self.session.authentication = self.authentication

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        if self.failing is not None:
            self.failing.cancel()
        super().connection_lost(exc)

    def _set_reading(self) -> None:
        if self.failing is None:
            super()._set_reading()

    def _handle(self, frame: memoryview) -> None:
        authentication = self.authentication
        if authentication.state is not State.COMPLETE or authentication.ends_at_ms is not None:
            if authentication.state is State.TOKENS:
                self._take_token(frame)
                return
            if len(frame) < _KEY_BYTES:
                raise PeerError(f"{len(frame)} bytes are no request")
            problem = authentication.problem(int.from_bytes(frame[:_KEY_BYTES], signed=True), self.sasl.clock())
            if problem is not None:
                self._refuse_early(frame, problem)
                return
        super()._handle(frame)

    def _refuse_early(self, frame: memoryview, problem: str) -> None:
        """A request that may not be sent now: answered in the middle of an exchange if it is small and can be read, as Kafka does."""
        if self.authentication.state not in EXCHANGES or len(frame) > AT_ONCE_BYTES_MAX:
            raise PeerError(problem)
        api, request = self.listener.dispatcher.read_request(frame, self.session)
        if request.version not in api.versions:
            request.version = 0  # of ApiVersions alone: its clients try versions
        text = self.authentication.interrupt(ApiKey(request.key))
        self.parked = True
        request.send = self._fail_later
        for _ in answer_with_error(request, frame, ErrorCode.ILLEGAL_SASL_STATE, text):
            pass  # the frame is small
        if self.failing is None:
            raise PeerError(problem)  # its response has no error

    def _take_token(self, token: memoryview) -> None:
        """A frame that is a token without a header, after SaslHandshake v0; a failure has no answer."""
        answer = self.authentication.authenticate(bytes(token), self.sasl.clock(), self.sasl.wall_clock())
        if answer is None or answer.error is not ErrorCode.NONE:
            self.parked = True
            self._fail_later([])
            return
        self.out += [len(answer.token).to_bytes(4, "big"), answer.token]
        self.out_bytes += 4 + len(answer.token)
        self._note_state()

    def _answer(self, parts: list[Buffer]) -> None:
        if self.authentication.state is not self.state:
            self._note_state()
            if self.state is State.FAILED:
                self._fail_later(parts)
                return
        super()._answer(parts)

    def _note_state(self) -> None:
        self.state = self.authentication.state
        principal = self.authentication.principal
        if self.state is State.COMPLETE and principal is not None:
            self.session.principal = principal
            self.frame_bytes_max = self.listener.frame_bytes_max
            self.listener.end_pending(self)
            log.info("%s authenticated from %s by %s", principal_text(principal), self.session.client_host, self.authentication.mechanism)

    def _fail_later(self, parts: list[Buffer]) -> None:
        """Hold the answer back, and read nothing meanwhile; then answer and close."""
        self.state = State.FAILED
        cause, mechanism = printable(self.authentication.cause[:_CAUSE_CHARACTERS_MAX]), self.authentication.mechanism
        self.sasl.failures.warning(
            self.listener.now_s, f"Failed authentication from {self.session.client_host} ({mechanism or 'no mechanism'}): {cause}"
        )
        self._drop_frames()
        if not self.read_paused and not self.transport.is_closing():
            self.read_paused = True
            self.transport.pause_reading()
        self.failing = asyncio.get_running_loop().call_later(self.sasl.failure_delay_s, self._answer_failure, parts)

    def _answer_failure(self, parts: list[Buffer]) -> None:
        self.parked = False
        self.request = None
        self.out += parts
        self.out_bytes += sum(map(len, parts))
        self._close()


def principal_text(principal: object) -> str:
    """A principal for a log line: its name is a peer's text."""
    return printable(str(principal)[:_CAUSE_CHARACTERS_MAX])
