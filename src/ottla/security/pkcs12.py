"""PKCS12 stores of keys and certificates, such as Java's keytool makes since Java 9, as PEM texts."""

from ottla.extras import require


def read_pkcs12(store: bytes, password: str) -> tuple[str, str]:
    """The certificates of a store, its key's own first, and the key without a password; "" where there is none.

    Raises ValueError for a wrong password and for what is no store, and MissingExtraError without the package that reads them.
    """
    require("security", "cryptography")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    read = pkcs12.load_pkcs12(store, password.encode() or None)
    found = [each for each in (read.cert, *read.additional_certs) if each is not None]
    certificates = "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in found)
    if read.key is None:
        return certificates, ""
    return certificates, read.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
