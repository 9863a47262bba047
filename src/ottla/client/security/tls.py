"""TLS contexts from a client's security settings: trusted certificates, and its own. It opens no connection.

An unreadable file is an AuthenticationError that names the property. A key that is given as text, or in a PKCS12 store, passes through a
temporary file that only this user may read: the standard library takes keys from files only.
"""

import ssl
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile

from ottla.client.errors import AuthenticationError
from ottla.client.security.properties import TLS_1_2, TLS_1_3, SecuritySettings
from ottla.security.pkcs12 import read_pkcs12


@lru_cache(maxsize=16)
def tls_context(security: SecuritySettings) -> ssl.SSLContext:
    """TLS 1.2 or 1.3, always with the server's certificate checked; its host name too, unless the settings say otherwise."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if TLS_1_2 in security.tls_versions else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if TLS_1_3 in security.tls_versions else ssl.TLSVersion.TLSv1_2
    context.check_hostname = security.checks_hostname
    try:
        _load_trusted(context, security)
    except (OSError, ValueError) as error:
        name = "ssl.truststore.location" if security.truststore_location else "ssl.truststore.certificates"
        kind = "PKCS12" if security.truststore_is_pkcs12 else "PEM"
        raise AuthenticationError(f"{name} holds no {kind} certificates that can be read: {error}") from error
    try:
        _load_own(context, security)
    except (OSError, ValueError) as error:
        name = "ssl.keystore.location" if security.keystore_location else "ssl.keystore.key"
        kind = "PKCS12" if security.keystore_is_pkcs12 else "PEM"
        raise AuthenticationError(f"{name} holds no {kind} certificate with its key that can be read: {error}") from error
    return context


def _load_trusted(context: ssl.SSLContext, security: SecuritySettings) -> None:
    if security.truststore_is_pkcs12:
        certificates, key = read_pkcs12(Path(security.truststore_location).read_bytes(), security.truststore_password)
        if key or not certificates:
            raise ValueError("it holds a private key" if key else "it is empty")
        context.load_verify_locations(cadata=certificates)
    elif security.truststore_location or security.truststore_certificates:
        context.load_verify_locations(security.truststore_location or None, cadata=security.truststore_certificates or None)
    else:
        context.load_default_certs()


def _load_own(context: ssl.SSLContext, security: SecuritySettings) -> None:
    chain, key, password = security.keystore_certificate_chain, security.keystore_key, security.key_password
    if security.keystore_is_pkcs12:
        chain, key = read_pkcs12(Path(security.keystore_location).read_bytes(), security.keystore_password)
        if not key:
            raise ValueError("it holds no private key")
        password = ""
    # A password is always passed, since OpenSSL would ask the terminal for one.
    if key:
        with NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{key}\n{chain}\n")
            file.flush()
            context.load_cert_chain(file.name, password=password)
    elif security.keystore_location:
        context.load_cert_chain(security.keystore_location, password=password)


def refusal(name: str, error: ssl.SSLError) -> AuthenticationError:
    """The error of a failed TLS handshake with broker `name`, with the property that would change it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        what = f"the certificate of broker {name} is not accepted: {error.verify_message or error}"
        if "Hostname mismatch" in str(error) or "IP address mismatch" in str(error):
            return AuthenticationError(f"{what} (ssl.endpoint.identification.algorithm)")
        return AuthenticationError(f"{what} (ssl.truststore.location sets the trusted certificates)")
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return AuthenticationError(f"broker {name} does not speak TLS on this port: check security.protocol ({error.reason})")
    return AuthenticationError(f"no encrypted connection to broker {name}: {error.reason or error}")
