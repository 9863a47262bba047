"""Keys of an issuer over https: whom the listener trusts, redirects, and answers that are no keys."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from ottla.broker.network.authentication import SaslSettings
from ottla.broker.network.token_keys import TokenKeys
from ottla.config import BrokerConfig, ConfigError
from ottla.testing.security.certificates import HOSTS, CertificateAuthority
from ottla.testing.security.tokens import TokenIssuer

AUTHORITY = CertificateAuthority()
ISSUER = TokenIssuer()
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TRUSTING = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.certificate}


class Endpoint:
    """Answers by path: a status, headers, and a body; `asked` are the paths that were asked for."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {"/keys": (200, {}, ISSUER.jwks.encode())}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, headers, body = outer.answers[self.path]
                if status == 0:
                    self.wfile.write(body)
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def end(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(AUTHORITY.issue("CN=issuer", hosts=HOSTS).write(tmp_path / "issuer.pem"), password="")
    made = Endpoint(tls)
    yield made
    made.end()


def keys(url: str, truststore: Mapping[str, str] = TRUSTING) -> TokenKeys:
    return TokenKeys(url, refresh_ms=3_600_000, clock_ms=lambda: 0, truststore=truststore)


def user(found: TokenKeys) -> str:
    return str(found.verify(ISSUER.token("alice"), "ES256", "test-key")["sub"])


def test_a_private_authority_is_trusted_by_the_listeners_own_store(endpoint: Endpoint, tmp_path: Path) -> None:
    pem, store = tmp_path / "ca.pem", tmp_path / "ca.p12"
    pem.write_text(AUTHORITY.certificate)
    certificate = x509.load_pem_x509_certificate(AUTHORITY.certificate.encode())
    store.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [certificate], BestAvailableEncryption(b"geheim")))
    in_a_line = AUTHORITY.certificate.replace("\n", "\\n")
    for options in (
        f'ssl.truststore.type="PEM" ssl.truststore.location="{pem}"',
        f'ssl.truststore.type="PEM" ssl.truststore.certificates="{in_a_line}"',
        f'ssl.truststore.type="PKCS12" ssl.truststore.location="{store}" ssl.truststore.password="geheim"',
    ):
        made = listener(endpoint, f"{MODULE} required {options};")
        assert made.token_keys is not None
        assert user(made.token_keys) == "alice"
    for jaas in (None, f"{MODULE} required;"):
        with pytest.raises(ConfigError, match=r"certificate verify failed.*; ssl\.truststore\.\* in the listener's"):
            listener(endpoint, jaas)
    assert len(endpoint.asked) == 3


def listener(endpoint: Endpoint, jaas: str | None) -> SaslSettings:
    given = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": f"{endpoint.url}/keys"}
    if jaas is not None:
        given["listener.name.in.oauthbearer.sasl.jaas.config"] = jaas
    return SaslSettings(
        BrokerConfig(given).of_listener("IN"),
        lambda mechanism, user: None,
        failure_delay_ms=0,
        clock=lambda: 0,
        wall_clock=lambda: 0,
        is_local=True,
        secret=b"",
    )


@pytest.mark.parametrize(
    ("jaas", "words"),
    [
        ("PlainLoginModule required;", "it must read: org.apache.kafka.common.security.oauthbearer"),
        (f'{MODULE} required ssl.keystore.location="x";', "the option ssl.keystore.location is not supported"),
        (f'{MODULE} required ssl.truststore.location="x";', "JKS is not supported"),
        (f'{MODULE} required ssl.truststore.type=PEM ssl.truststore.location="/none";', "the certificates to trust cannot be read"),
        (f'{MODULE} required ssl.truststore.type=PEM ssl.truststore.certificates="x";', "the certificates to trust cannot be read"),
        (f'{MODULE} required ssl.truststore.type=PEM ssl.truststore.location=x ssl.truststore.certificates="x";', "give either"),
    ],
)
def test_stores_that_are_refused(endpoint: Endpoint, jaas: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        listener(endpoint, jaas)
    assert words in str(refused.value)
    assert not endpoint.asked


def test_a_redirect_stays_encrypted(endpoint: Endpoint) -> None:
    plain = Endpoint(None)
    try:
        endpoint.answers |= {
            "/near": (302, {"Location": "/keys"}, b""),
            "/plain": (302, {"Location": f"{plain.url}/keys"}, b""),
            "/ftp": (301, {"Location": "ftp://127.0.0.1/keys"}, b""),
            "/circle": (302, {"Location": "/circle"}, b""),
        }
        assert user(keys(f"{endpoint.url}/near")) == "alice"
        for path in ("/plain", "/ftp"):
            with pytest.raises(ConfigError, match="redirects to an address without encryption"):
                keys(endpoint.url + path)
        with pytest.raises(ConfigError, match="the keys cannot be read"):
            keys(f"{endpoint.url}/circle")
        assert not plain.asked
    finally:
        plain.end()


@pytest.mark.parametrize(
    ("status", "body"), [(503, b"later"), (200, b"<html>"), (200, b"[" * 100_000), (0, b"no HTTP\r\n\r\n"), (200, b" " * 1_100_000)]
)
def test_answers_that_are_no_keys(endpoint: Endpoint, status: int, body: bytes) -> None:
    endpoint.answers["/keys"] = (status, {}, body)
    with pytest.raises(ConfigError, match="the keys cannot be read"):
        keys(f"{endpoint.url}/keys")


def test_a_certificate_of_another_host_is_refused(endpoint: Endpoint, tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(AUTHORITY.issue("CN=other", hosts=("other.example",)).write(tmp_path / "other.pem"), password="")
    other = Endpoint(tls)
    try:
        with pytest.raises(ConfigError, match="IP address mismatch"):
            keys(f"{other.url}/keys")
        assert not other.asked
    finally:
        other.end()
