"""SCRAM: the exchange of RFC 7677, and malformed messages of servers."""

import pytest

from ottla.protocol.errors import PeerError
from ottla.security.scram import ScramClient, plain

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client(mechanism: str = "SCRAM-SHA-256", user: str = "user", password: str = "pencil") -> ScramClient:
    return ScramClient(mechanism, user, password, NONCE)


def test_the_exchange_that_the_rfc_shows() -> None:
    scram = client()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.final(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert scram.is_server(SERVER_FINAL)


def test_a_server_without_the_password_is_rejected() -> None:
    scram = client()
    scram.final(SERVER_FIRST)
    assert not scram.is_server(b"v=" + b"A" * 43 + b"=")
    assert not scram.is_server(b"e=other-error")
    assert not client().is_server(SERVER_FINAL), "before anything was proved"


def test_names_with_the_letters_that_separate_fields() -> None:
    assert client(user="a=b,c").first() == b"n,,n=a=3Db=2Cc,r=" + NONCE.encode()


def test_the_other_hash() -> None:
    final = client("SCRAM-SHA-512").final(SERVER_FIRST)
    assert len(final.partition(b",p=")[2]) == 88, "64 bytes in base64"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"r=elsewhere,s=W22Z,i=4096",
        b"r=" + NONCE.encode() + b",s=W22Z,i=4096",
        SERVER_FIRST.replace(b"s=W22Z", b"s=\xff"),
        SERVER_FIRST.replace(b"i=4096", b"i=x"),
        SERVER_FIRST.replace(b"i=4096", b"i=4095"),
        SERVER_FIRST.replace(b"i=4096", b"i=1000001"),
        SERVER_FIRST.replace(b"i=4096", b"i=99999999999999"),
        SERVER_FIRST.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="),
    ],
)
def test_messages_that_make_no_sense(message: bytes) -> None:
    with pytest.raises(PeerError):
        client().final(message)


def test_a_last_message_without_proof() -> None:
    scram = client()
    scram.final(SERVER_FIRST)
    with pytest.raises(PeerError):
        scram.is_server(b"hello")
    with pytest.raises(PeerError):
        scram.is_server(b"v=!!")


def test_plain() -> None:
    assert plain("üser", "p w") == "\0üser\0p w".encode()
