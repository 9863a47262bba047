"""TLS contexts, and errors about unreadable files. Real handshakes: tests/kafka/test_security.py."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, NoEncryption, pkcs12

from ottla.client.errors import AuthenticationError
from ottla.client.security.properties import SecuritySettings
from ottla.client.security.tls import refusal, tls_context


def test_certificates_are_always_checked_and_host_names_by_default() -> None:
    context = tls_context(SecuritySettings(protocol="SSL"))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert tls_context(SecuritySettings(protocol="SSL")) is context, "made once"
    unchecked = tls_context(SecuritySettings(protocol="SSL", checks_hostname=False))
    assert (unchecked.verify_mode, unchecked.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_unreadable_files_are_named_by_their_property(tmp_path: Path) -> None:
    garbage = tmp_path / "x.pem"
    garbage.write_text("no certificate")
    for security, sentence in (
        (SecuritySettings(protocol="SSL", truststore_location="/no/such"), "ssl.truststore.location holds no PEM certificates"),
        (SecuritySettings(protocol="SSL", truststore_location=str(garbage)), "ssl.truststore.location holds no PEM certificates"),
        (SecuritySettings(protocol="SSL", truststore_certificates="x"), "ssl.truststore.certificates holds no PEM certificates"),
        (SecuritySettings(protocol="SSL", keystore_location=str(garbage)), "ssl.keystore.location holds no PEM certificate with its key"),
        (SecuritySettings(protocol="SSL", keystore_key="x", keystore_certificate_chain="y"), "ssl.keystore.key holds no PEM certificate"),
    ):
        with pytest.raises(AuthenticationError, match=sentence):
            tls_context(security)


def test_versions() -> None:
    context = tls_context(SecuritySettings(protocol="SSL", tls_versions=frozenset({"TLSv1.3"})))
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    context = tls_context(SecuritySettings(protocol="SSL", tls_versions=frozenset({"TLSv1.2"})))
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)


@pytest.fixture
def stores(tmp_path: Path) -> tuple[str, str]:
    """A key store with the password "secret", and a trust store without one."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    certificate = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, SHA256())
    own, trusted = tmp_path / "own.p12", tmp_path / "trusted.p12"
    own.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, None, BestAvailableEncryption(b"secret")))
    trusted.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [certificate], NoEncryption()))
    return str(own), str(trusted)


def test_pkcs12_stores(stores: tuple[str, str]) -> None:
    own, trusted = stores
    context = tls_context(
        SecuritySettings(
            protocol="SSL",
            truststore_location=trusted,
            truststore_is_pkcs12=True,
            keystore_location=own,
            keystore_is_pkcs12=True,
            keystore_password="secret",
        )
    )
    assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "me"),),)]


def test_pkcs12_stores_that_cannot_be_used(stores: tuple[str, str]) -> None:
    own, trusted = stores
    for security, sentence in (
        (SecuritySettings(keystore_location=own, keystore_is_pkcs12=True), "ssl.keystore.location holds no PKCS12 certificate"),
        (SecuritySettings(keystore_location=trusted, keystore_is_pkcs12=True), "it holds no private key"),
        (SecuritySettings(keystore_location="/no/such", keystore_is_pkcs12=True), "ssl.keystore.location .*No such file"),
        (
            SecuritySettings(truststore_location=own, truststore_is_pkcs12=True, truststore_password="secret"),
            "ssl.truststore.location holds no PKCS12 certificates that can be read: it holds a private key",
        ),
    ):
        with pytest.raises(AuthenticationError, match=sentence):
            tls_context(security)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("WRONG_VERSION_NUMBER", "broker a:1 does not speak TLS on this port: check security.protocol"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "no encrypted connection to broker a:1: TLSV13_ALERT_CERTIFICATE_REQUIRED"),
    ],
)
def test_messages_about_failed_handshakes(reason: str, sentence: str) -> None:
    error = ssl.SSLError(1, "text")
    error.reason = reason
    assert str(refusal("a:1", error)).startswith(sentence)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("unable to get local issuer certificate", "ssl.truststore.location sets the trusted certificates"),
        ("Hostname mismatch, certificate is not valid for 'a'.", "ssl.endpoint.identification.algorithm"),
    ],
)
def test_a_certificate_that_is_not_accepted(message: str, name: str) -> None:
    error = ssl.SSLCertVerificationError(1, message)
    error.verify_message = message
    assert str(refusal("a:1", error)) == f"the certificate of broker a:1 is not accepted: {message} ({name})"
