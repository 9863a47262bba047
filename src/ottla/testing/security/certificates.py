"""An authority of certificates in memory, for one test: certificates of brokers, clients and strangers as PEM, PKCS12 and files."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

HOSTS = ("localhost", "127.0.0.1", "::1")


class Certificate(NamedTuple):
    """A certificate and its private key, as PEM texts."""

    certificate: str
    key: str

    def write(self, path: Path) -> Path:
        """Key and certificate as one PEM file that nobody else can read."""
        path.touch(0o600)
        path.write_text(self.key + self.certificate)
        return path


class CertificateAuthority:
    """`certificate` is what the others have to trust. Keys are of elliptic curves: making one takes less than a millisecond."""

    def __init__(self, name: str = "Ottla test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        made = self._builder(self._name, self._key.public_key(), days=1).add_extension(x509.BasicConstraints(True, None), critical=True)
        self._certificate = made.sign(self._key, SHA256())
        self.certificate = _pem(self._certificate)

    def issue(self, subject: str, *, hosts: tuple[str, ...] = (), days: float = 1) -> Certificate:
        """A certificate for `subject` (RFC 4514: "CN=alice,O=Acme"), of a server for its `hosts`; with negative `days` it has expired."""
        made, key = self._issue(subject, hosts, days)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return Certificate(_pem(made), text)

    def _issue(self, subject: str, hosts: tuple[str, ...], days: float) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name.from_rfc4514_string(subject), key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        return builder.sign(self._key, SHA256()), key

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: float) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        begin = now - timedelta(days=1 if days > 0 else 2)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(now + timedelta(days=days))
        identifiers = (
            x509.SubjectKeyIdentifier.from_public_key(key),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        )
        return builder.add_extension(identifiers[0], critical=False).add_extension(identifiers[1], critical=False)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
