"""Key and trust stores of every form, certificates that are read again, keys of an issuer, and who may listen off loopback."""

import asyncio
import json
import os
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from jwt.algorithms import RSAAlgorithm

from ottla.broker import Broker
from ottla.broker.network.listener_security import warn_of_listeners
from ottla.broker.network.tls import TlsSettings
from ottla.broker.network.token_keys import EARLY_REFRESH_MS, TokenKeys
from ottla.config import BrokerConfig, ConfigError
from ottla.config.listeners import ListenerConfig
from ottla.security.access import ANONYMOUS
from ottla.security.token_validation import InvalidToken
from ottla.testing.security.certificates import HOSTS, Certificate, CertificateAuthority
from ottla.testing.security.tokens import TokenIssuer

AUTHORITY = CertificateAuthority()


def tls(has_sasl: bool = False, **settings: str) -> TlsSettings:
    config = BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
    return TlsSettings(config.of_listener("SSL"), has_sasl=has_sasl)


def served(settings: TlsSettings, client: ssl.SSLContext | None = None, own: Certificate | None = None, path: Path | None = None) -> Any:
    """A handshake in memory: the certificate that a client sees, and the principal that the listener sees."""
    client = client or ssl.create_default_context(cadata=AUTHORITY.certificate)
    if own is not None and path is not None:
        client.load_cert_chain(own.write(path), password="")
    (to_client, to_server) = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        settings.context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    seen: Any = ends[0].getpeercert()
    return dict(part[0] for part in seen["subject"])["commonName"], settings.principal(ends[1].getpeercert(binary_form=True))


def store_of(certificate: Certificate, password: str) -> bytes:
    key: Any = load_pem_private_key(certificate.key.encode(), None)
    own = x509.load_pem_x509_certificate(certificate.certificate.encode())
    trusted = x509.load_pem_x509_certificate(AUTHORITY.certificate.encode())
    return pkcs12.serialize_key_and_certificates(b"broker", key, own, [trusted], BestAvailableEncryption(password.encode()))


def test_stores_as_files_texts_and_pkcs12(tmp_path: Path) -> None:
    own = AUTHORITY.issue("CN=broker", hosts=HOSTS)
    store = tmp_path / "store.p12"
    store.write_bytes(store_of(own, "geheim"))
    for settings in (
        tls(ssl_keystore_type="PEM", ssl_keystore_location=str(own.write(tmp_path / "own.pem"))),
        tls(ssl_keystore_type="PEM", ssl_keystore_key=own.key, ssl_keystore_certificate_chain=own.certificate),
        tls(ssl_keystore_type="PKCS12", ssl_keystore_location=str(store), ssl_keystore_password="geheim"),
    ):
        assert served(settings) == ("broker", ANONYMOUS)
    with pytest.raises(ConfigError, match="no certificate with its key can be read") as refused:
        tls(ssl_keystore_type="PKCS12", ssl_keystore_location=str(store), ssl_keystore_password="wrong-geheim")
    assert "geheim" not in str(refused.value)


def test_clients_certificates_and_their_users(tmp_path: Path) -> None:
    own = AUTHORITY.issue("CN=broker", hosts=HOSTS)
    trust = tmp_path / "trust.p12"
    trust.write_bytes(store_of(own, "geheim"))
    keystore = {"ssl_keystore_type": "PEM", "ssl_keystore_key": own.key, "ssl_keystore_certificate_chain": own.certificate}
    pem = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": AUTHORITY.certificate}
    of_store = {"ssl_truststore_type": "PKCS12", "ssl_truststore_location": str(trust), "ssl_truststore_password": "geheim"}
    alice = AUTHORITY.issue("CN=alice,O=Acme")
    for truststore in (pem, of_store):
        settings = tls(ssl_client_auth="required", **keystore, **truststore)
        assert served(settings, own=alice, path=tmp_path / "alice.pem") == ("broker", ("User", "CN=alice,O=Acme"))
    mapped = tls(ssl_client_auth="requested", ssl_principal_mapping_rules=r"RULE:^CN=(\w+).*$/$1/U", **keystore, **pem)
    assert served(mapped, own=alice, path=tmp_path / "alice.pem") == ("broker", ("User", "ALICE"))
    assert served(mapped) == ("broker", ANONYMOUS)
    with pytest.raises(ValueError, match=r"no rule of ssl\.principal\.mapping\.rules matches O=Acme"):
        served(mapped, own=AUTHORITY.issue("O=Acme"), path=tmp_path / "acme.pem")
    stranger = CertificateAuthority("stranger").issue("CN=alice")
    with pytest.raises(ssl.SSLError):
        served(mapped, own=stranger, path=tmp_path / "stranger.pem")
    assert tls(has_sasl=True, ssl_client_auth="required", **keystore).client_auth == "none", "with SASL, only the listener's own counts"


def test_versions_of_tls() -> None:
    own = AUTHORITY.issue("CN=broker", hosts=HOSTS)
    keystore = {"ssl_keystore_type": "PEM", "ssl_keystore_key": own.key, "ssl_keystore_certificate_chain": own.certificate}
    old = ssl.create_default_context(cadata=AUTHORITY.certificate)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert served(tls(**keystore), old) == ("broker", ANONYMOUS)
    with pytest.raises(ssl.SSLError):
        served(tls(ssl_enabled_protocols="TLSv1.3", **keystore), old)
    assert tls(**keystore).context.options & ssl.OP_NO_RENEGOTIATION


def test_certificates_are_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = AUTHORITY.issue("CN=before", hosts=HOSTS).write(tmp_path / "own.pem")
    settings = tls(ssl_keystore_type="PEM", ssl_keystore_location=str(path))
    before = settings.context
    settings.reload()
    assert settings.context is before
    AUTHORITY.issue("CN=after", hosts=HOSTS).write(path)
    os.utime(path, (1, 1))
    settings.reload()
    assert served(settings) == ("after", ANONYMOUS)
    path.write_text("half of it")
    os.utime(path, (2, 2))
    settings.reload()
    assert served(settings) == ("after", ANONYMOUS)
    assert "stay in use" in caplog.text


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("cryptography", "jwt"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "x").touch()
    with pytest.raises(ConfigError, match=r'pip install "ottla\[security\]"'):
        tls(ssl_keystore_type="PKCS12", ssl_keystore_location=str(tmp_path / "x"))
    with pytest.raises(ConfigError, match=r'pip install "ottla\[security\]"'):
        TokenKeys("file:///x", refresh_ms=1, clock_ms=lambda: 0)


class TestTokenKeys:
    def keys(self, path: Path, text: str, clock: Any = lambda: 0) -> TokenKeys:
        path.write_text(text)
        return TokenKeys(path.as_uri(), refresh_ms=3_600_000, clock_ms=clock)

    def test_signatures(self, tmp_path: Path) -> None:
        issuer = TokenIssuer()
        keys = self.keys(tmp_path / "keys", issuer.jwks)
        token = issuer.token("alice")
        assert keys.verify(token, "ES256", "test-key")["sub"] == "alice"
        head, claims, signature = token.split(".")
        for wrong, algorithm, key_id in (
            (f"{head}.{claims}.{signature[:-8]}AAAAAAAA", "ES256", "test-key"),
            (TokenIssuer().token("alice"), "ES256", "test-key"),
            (token, "ES256", "another"),
            (token, "HS256", "test-key"),
            (token, "RS256", "test-key"),
            (token, "none", "test-key"),
        ):
            with pytest.raises(InvalidToken):
                keys.verify(wrong, algorithm, key_id)

    def test_a_public_key_is_no_secret_of_hmac(self, tmp_path: Path) -> None:
        """The attack of many libraries: a token that is signed with HMAC and the public key."""
        private = rsa.generate_private_key(65537, 2048)
        public = {**json.loads(RSAAlgorithm.to_jwk(private.public_key())), "kid": "k"}
        keys = self.keys(tmp_path / "keys", json.dumps({"keys": [public]}))
        assert keys.verify(jwt.encode({"sub": "a"}, private, "RS512", headers={"kid": "k"}), "RS512", "k") == {"sub": "a"}
        forged = jwt.encode({"sub": "admin"}, public["n"], "HS256", headers={"kid": "k"})
        for algorithm in ("HS256", "RS256"):
            with pytest.raises(InvalidToken):
                keys.verify(forged, algorithm, "k")
        with pytest.raises(InvalidToken):
            keys.verify(jwt.encode({"sub": "a"}, ec.generate_private_key(ec.SECP256R1()), "ES256"), "ES256", "k")

    @pytest.mark.parametrize("text", ["", "[]", '{"keys": []}', '{"keys": [{"kty": "oct", "k": "AA", "kid": "k"}]}', "x" * 1_100_000])
    def test_keys_that_cannot_be_used(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(ConfigError, match="the keys cannot be read"):
            self.keys(tmp_path / "keys", text)

    def test_an_unknown_kid_has_the_keys_read_again_once_a_minute(self, tmp_path: Path) -> None:
        issuer, clock = TokenIssuer(), [0]

        async def ask() -> None:
            keys = self.keys(tmp_path / "keys", issuer.jwks.replace("test-key", "old"), lambda: clock[0])
            (tmp_path / "keys").write_text(issuer.jwks)
            for now_ms in (EARLY_REFRESH_MS - 1, EARLY_REFRESH_MS):
                clock[0] = now_ms
                for _ in range(5):
                    with pytest.raises(InvalidToken):
                        keys.verify(issuer.token("alice"), "ES256", "test-key")
            user = None
            while user is None:
                await asyncio.sleep(0.001)
                with suppress(InvalidToken):
                    user = keys.verify(issuer.token("alice"), "ES256", "test-key")["sub"]
            assert user == "alice"

        asyncio.run(ask())

    @pytest.mark.parametrize("url", ["http://127.0.0.1/keys", "ftp://x/y", "/etc/passwd"])
    def test_where_keys_are_not_read_from(self, url: str) -> None:
        with pytest.raises(ConfigError, match="write https://"):
            TokenKeys(url, refresh_ms=1, clock_ms=lambda: 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"listeners": ["PLAINTEXT://0.0.0.0:0"]},
            "listener PLAINTEXT (0.0.0.0) can be reached from other machines, and PLAINTEXT",
        ),
        ({"listeners": ["PLAINTEXT://[::]:0"]}, "listener PLAINTEXT (::) can be reached"),
        ({"listeners": ["SSL://192.0.2.1:0"], "config": {"ssl.keystore.key": "x"}}, "and SSL lets in everybody"),
        ({"listeners": ["SSL://127.0.0.1:0"]}, "has the protocol SSL, and no certificate"),
        ({"listeners": ["SASL_PLAINTEXT://127.0.0.1:0"]}, "give sasl.enabled.mechanisms, some of PLAIN"),
        ({"listen": "[fe80::1]:0"}, "can be reached from other machines"),
        ({"metrics": "0.0.0.0:0"}, "the metrics at 0.0.0.0 can be read from other machines"),
        ({"config": {"listener.name.other.ssl.client.auth": "none"}}, "is about a listener that there is not: the listeners are PLAINTEXT"),
        ({"config": {"listener.name.plaintext.color": "red"}}, "is not a setting of a listener here"),
    ],
)
def test_what_is_open_off_loopback_does_not_start(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Broker(**settings)
    assert words in str(refused.value)


def test_what_may_listen_off_loopback() -> None:
    Broker(listen="0.0.0.0:0", metrics="0.0.0.0:0", config={"allow.unauthenticated.listeners": True})
    store = {"ssl.keystore.location": "/x"}
    Broker(listeners=["SASL_SSL://0.0.0.0:0"], config={**store, "sasl.enabled.mechanisms": "PLAIN"})
    Broker(listeners=["SSL://0.0.0.0:0"], config={**store, "listener.name.ssl.ssl.client.auth": "required"})
    Broker(listen="localhost:0", metrics="[::1]:0")


def test_what_is_weak_off_loopback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig()
    warn_of_listeners([ListenerConfig("IN", "127.0.0.1", 0, None, "SASL_PLAINTEXT")], config)
    assert not caplog.records
    warn_of_listeners([ListenerConfig("OUT", "0.0.0.0", 0, None, "SASL_PLAINTEXT")], config)
    assert "there are no ACLs: who comes in by OUT may do everything" in caplog.text
    assert "listener OUT (0.0.0.0): passwords and tokens cross the network without encryption" in caplog.text
