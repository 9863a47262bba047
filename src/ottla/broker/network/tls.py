"""TLS of a listener: the context that its settings make, and the layer between a socket and its connection.

The layer is a protocol to the socket and a transport to the connection, with an SSLObject of its own: one code for all event loops, and a
connection counts from the moment that its socket is open, before its handshake (asyncio's `create_server(ssl=...)` would show it after
that). Decrypted bytes go straight to where the connection wants its next bytes, so memory grows with what has arrived.
"""

import asyncio
import logging
import ssl
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.broker.network.connection import Connection, Listener
from ottla.broker.network.limits import RepeatedWarning
from ottla.config import ConfigError
from ottla.config.security_settings import ListenerSettings
from ottla.extras import MissingExtraError
from ottla.protocol.wire.primitives import Buffer
from ottla.security.access import ANONYMOUS, Principal
from ottla.security.certificate_names import PrincipalMapper, subject_name
from ottla.security.pkcs12 import read_pkcs12
from ottla.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

RECEIVE_BYTES: Final = 128 * 1024
"""One read of a socket takes at most so many encrypted bytes; all connections of a listener share the buffer."""
ENCRYPTED_BYTES_MAX: Final = 1024 * 1024
"""So much of a response is encrypted before it is handed to the socket."""
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
JKS: Final = (
    "JKS is not supported: write {name}=PKCS12 (keytool -importkeystore -deststoretype PKCS12) or {name}=PEM (`ottla docs security`)"
)


class TlsSettings:
    """TLS of one listener: `context` for new connections, made again by `reload` when a file has changed. Raises ConfigError."""

    def __init__(self, settings: ListenerSettings, *, has_sasl: bool) -> None:
        self._settings = settings
        # For listeners with SASL, Kafka takes the listener's own value alone: their clients have another way to say who they are.
        own = settings.own_text("ssl.client.auth") if has_sasl else settings.text("ssl.client.auth")
        self.client_auth = (own or "none").strip()
        self.has_sasl = has_sasl
        try:
            self._mapper = PrincipalMapper(settings.text("ssl.principal.mapping.rules"))
        except ValueError as error:
            raise self._problem("ssl.principal.mapping.rules", error) from error
        self._loaded = self._modified()
        self.context = self._make_context()
        self.refusals = RepeatedWarning(log, lines=20)

    def principal(self, certificate: bytes | None) -> Principal:
        """The user of a client's certificate (DER), ANONYMOUS without one. Raises ValueError when no rule gives it a name."""
        if certificate is None:
            return ANONYMOUS
        subject = subject_name(certificate)
        name = self._mapper.name(subject)
        if name is None:
            raise ValueError(f"no rule of ssl.principal.mapping.rules matches {printable(subject)}")
        return Principal("User", name)

    def reload(self) -> None:
        """Use the files of the key and trust store as they are now, if they have changed; the old ones where the new ones are refused."""
        modified = self._modified()
        if modified == self._loaded:
            return
        self._loaded = modified
        try:
            self.context = self._make_context()
        except ConfigError as error:
            log.error("%s; the certificates that were read before stay in use", error)
            return
        log.warning("the certificates of listener %s were read again: new connections use them", self._settings.listener)

    def _modified(self) -> list[tuple[int, int]]:
        locations = [self._settings.text(name) for name in ("ssl.keystore.location", "ssl.truststore.location")]
        found = []
        for location in filter(None, locations):
            try:
                status = Path(location).stat()
            except OSError:
                continue  # reading it will say so
            found.append((status.st_mtime_ns, status.st_size))
        return found

    def _make_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = [_VERSIONS[name] for name in self._settings.items("ssl.enabled.protocols")]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.num_tickets = 0  # Kafka's clients open few connections, and a ticket would outlive a changed trust store
        self._load_key(context)
        self._load_trusted(context)
        context.verify_mode = _VERIFY[self.client_auth]
        return context

    def _load_key(self, context: ssl.SSLContext) -> None:
        text = self._settings.text
        location, key, chain = text("ssl.keystore.location"), text("ssl.keystore.key"), text("ssl.keystore.certificate.chain")
        kind, password = self._kind("ssl.keystore.type"), text("ssl.key.password")
        name = "ssl.keystore.location" if location else "ssl.keystore.key"
        if bool(location) == bool(key or chain) or bool(key) != bool(chain):
            raise self._problem(name, "give either ssl.keystore.location, or ssl.keystore.key with ssl.keystore.certificate.chain")
        if kind == "PEM" and text("ssl.keystore.password"):
            raise self._problem("ssl.keystore.password", "a PEM key store has none; that of an encrypted key is ssl.key.password")
        if kind == "PKCS12" and not location:
            raise self._problem(name, "texts are PEM: write ssl.keystore.type=PEM")
        try:
            if kind == "PEM" and location:
                context.load_cert_chain(location, password=password)
                return
            pem = f"{key}\n{chain}\n" if kind == "PEM" else _key_of_pkcs12(location, text("ssl.keystore.password"))
            with _file(pem) as path:  # OpenSSL reads keys from files alone; nobody else can read this one
                context.load_cert_chain(path, password=password if kind == "PEM" else "")
        except MissingExtraError as error:
            raise self._problem("ssl.keystore.type", f"PKCS12 needs a package: {error}") from error
        except (OSError, ValueError) as error:
            raise self._problem(name, f"no certificate with its key can be read: {error}") from error

    def _load_trusted(self, context: ssl.SSLContext) -> None:
        text = self._settings.text
        location, certificates = text("ssl.truststore.location"), text("ssl.truststore.certificates")
        name = "ssl.truststore.location" if location else "ssl.truststore.certificates"
        if not (location or certificates):
            if self.client_auth != "none":
                raise self._problem("ssl.client.auth", f"{self.client_auth} needs ssl.truststore.location or ssl.truststore.certificates")
            return
        if location and certificates:
            raise self._problem(name, "give either ssl.truststore.location or ssl.truststore.certificates")
        kind = self._kind("ssl.truststore.type")
        try:
            if kind == "PKCS12":
                certificates = trusted_of_pkcs12(location, text("ssl.truststore.password"))
                location = ""
            context.load_verify_locations(location or None, cadata=certificates or None)
        except MissingExtraError as error:
            raise self._problem("ssl.truststore.type", f"PKCS12 needs a package: {error}") from error
        except (OSError, ValueError) as error:
            raise self._problem(name, f"no certificates can be read: {error}") from error

    def _kind(self, name: str) -> str:
        kind = self._settings.text(name).strip()
        if kind == "JKS":
            raise self._problem(name, JKS.format(name=name))
        return kind

    def _problem(self, name: str, what: object) -> ConfigError:
        return ConfigError(f"listener {self._settings.listener}, {name}: {what}")


@contextmanager
def _file(text: str) -> "Iterator[str]":
    with NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(text)
        file.flush()
        yield file.name


def _key_of_pkcs12(location: str, password: str) -> str:
    certificates, key = read_pkcs12(Path(location).read_bytes(), password)
    if not key or not certificates:
        raise ValueError("it has no private key, or no certificate of it")
    return key + certificates


def trusted_of_pkcs12(location: str, password: str) -> str:
    """The certificates of a trust store as PEM text. Raises ValueError, OSError, or MissingExtraError."""
    certificates, _ = read_pkcs12(Path(location).read_bytes(), password)
    if not certificates:
        raise ValueError("it has no certificate")
    return certificates


class TlsTransport(asyncio.BufferedProtocol):
    """The layer of one connection: asyncio's calls come from the socket, a transport's from the connection."""

    __slots__ = (
        "connection", "incoming", "is_due", "is_established", "is_paused", "layer", "listener", "outgoing", "peer_ended",
        "receive_buffer", "settings", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, settings: TlsSettings, listener: Listener, connection: Connection, receive_buffer: memoryview) -> None:
        self.settings = settings
        self.listener = listener
        self.connection = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.layer = settings.context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.receive_buffer = receive_buffer
        self.is_established = self.is_paused = self.is_due = self.peer_ended = False

    # asyncio's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A socket is open; its connection is counted from now on."""
        self.transport = cast(asyncio.Transport, transport)
        self.connection.connection_made(cast(asyncio.BaseTransport, self))

    def get_buffer(self, sizehint: int) -> Buffer:
        """Where the next encrypted bytes go."""
        return self.receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Encrypted bytes have arrived."""
        self.incoming.write(self.receive_buffer[:nbytes])
        if self.is_established or self._is_now_established():
            self._decrypt()

    def eof_received(self) -> bool:
        """The peer sends no more, with or without saying so in TLS."""
        if not self.is_established:
            return False
        self.peer_ended = True
        self._decrypt()
        if self.is_paused and self.incoming.pending:
            return True  # what has arrived is handled first
        return self.connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed."""
        self.connection.connection_lost(exc)
        self.connection.transport = self.transport  # no cycle: its memory is free at once, whenever garbage is collected

    def pause_writing(self) -> None:
        """The peer reads slowly."""
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        """The peer has read."""
        self.connection.resume_writing()

    # the connection's calls

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the socket knows."""
        return self.transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        """Bounds of encrypted bytes that are not sent."""
        self.transport.set_write_buffer_limits(high)

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that are not sent."""
        return self.transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self.transport.is_closing()

    def pause_reading(self) -> None:
        """Neither read nor decrypt: what has arrived stays encrypted."""
        self.is_paused = True
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, after what has arrived before is decrypted."""
        self.is_paused = False
        if not self.peer_ended:
            self.transport.resume_reading()
        if not self.is_due:
            self.is_due = True
            asyncio.get_running_loop().call_soon(self._continue)

    def write(self, data: Buffer) -> None:
        """Encrypt and send."""
        self._encrypt(data)
        self._flush()

    def writelines(self, parts: list[Buffer]) -> None:
        """Encrypt and send several parts."""
        for part in parts:
            self._encrypt(part)
        self._flush()

    def close(self) -> None:
        """Send what is to be sent and the end of TLS, and close."""
        if self.is_established and not self.transport.is_closing():
            with suppress(ssl.SSLError):  # the peer has not said that it ends: nobody waits for that
                self.layer.unwrap()
            self._flush()
        self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()

    # TLS

    def _is_now_established(self) -> bool:
        """Continue the handshake."""
        try:
            self.layer.do_handshake()
            if self.settings.client_auth != "none" and not self.settings.has_sasl:
                self.connection.session.principal = self.settings.principal(self.layer.getpeercert(binary_form=True))
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ValueError) as error:
            self._fail(error)
            return False
        self._flush()
        self.is_established = True
        if not self.settings.has_sasl:
            self.listener.end_pending(self.connection)
        return True

    def _fail(self, error: ssl.SSLError | ValueError) -> None:
        """Close, after an alert where OpenSSL has one for it."""
        self._flush()
        why = _reason(error)
        self.settings.refusals.warning(
            self.listener.now_s, f"closing the connection from {self.connection.session.client_host}: its TLS handshake failed: {why}"
        )
        self.connection.closed = True
        self.transport.close()

    def _continue(self) -> None:
        self.is_due = False
        if self.is_established and not self.transport.is_closing():
            self._decrypt()
            if self.peer_ended and not self.is_paused and not self.connection.eof_received():
                self.close()

    def _decrypt(self) -> None:
        """Pass on what has arrived, as long as the connection takes it."""
        connection = self.connection
        has_more = True
        while has_more and not (self.is_paused or connection.closed):
            buffer = memoryview(connection.get_buffer(-1))
            filled = 0
            try:
                while filled < len(buffer):
                    count = self.layer.read(len(buffer) - filled, buffer[filled:])
                    if not count:
                        has_more = False
                        self.peer_ended = True
                        break
                    filled += cast(int, count)
            except ssl.SSLWantReadError:
                has_more = False
            except ssl.SSLError as error:
                connection.give_up(f"what it sent cannot be decrypted: {_reason(error)}")
                return
            if filled:
                connection.buffer_updated(filled)
        if self.outgoing.pending:  # TLS has something to say itself
            self._flush()
        if self.peer_ended and not has_more and not self.transport.is_closing() and not connection.eof_received():
            self.close()

    def _encrypt(self, data: Buffer) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.layer.write(view) :]
            except ssl.SSLError as error:
                self.connection.give_up(f"its response cannot be encrypted: {_reason(error)}")
                return
            if self.outgoing.pending > ENCRYPTED_BYTES_MAX:
                self._flush()

    def _flush(self) -> None:
        if self.outgoing.pending and not self.transport.is_closing():
            self.transport.write(self.outgoing.read())


_OTHER_PROTOCOLS: Final = {
    "HTTP_REQUEST": "it speaks HTTP",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP",
    "WRONG_VERSION_NUMBER": "it does not speak TLS (security.protocol of the client)",
    "UNKNOWN_PROTOCOL": "it does not speak TLS (security.protocol of the client)",
}


def _reason(error: ssl.SSLError | ValueError) -> str:
    """Why, in OpenSSL's words, or plainer ones."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return _OTHER_PROTOCOLS.get(error.reason or "", error.reason or str(error))
    return str(error)
