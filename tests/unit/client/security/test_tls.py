"""TLS contexts, and errors about unreadable files. Real handshakes: tests/kafka/test_security.py."""

import ssl
from pathlib import Path

import pytest

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
