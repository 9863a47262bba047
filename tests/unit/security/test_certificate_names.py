"""Subjects as Java writes them, and the rules that map them: the cases of Kafka's SslPrincipalMapperTest."""

import ssl
from typing import Final

import pytest

from ottla.security.certificate_names import PrincipalMapper, subject_name
from ottla.testing.security.certificates import CertificateAuthority

RULES: Final = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r" RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


def der(subject: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(CertificateAuthority().issue(subject).certificate)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("CN=alice,OU=Dev,O=Acme\\, Inc,L=Wien,ST=W,C=AT", "CN=alice,OU=Dev,O=Acme\\, Inc,L=Wien,ST=W,C=AT"),
        ("1.2.840.113549.1.9.1=a@b.c,CN=x", "1.2.840.113549.1.9.1=#16056140622e63,CN=x"),
        ("UID=u1+CN=multi", "CN=multi+UID=u1"),
        ("CN=\\ a\\=b\\#c\\ ,DC=x", "CN=\\ a\\=b\\#c\\ ,DC=x"),
        ("CN=Zoë\\;x,2.5.4.12=Dr", "CN=Zoë\\;x,2.5.4.12=#0c024472"),
        ('CN=a\\"b\\\\c\\<d\\>,STREET=x', 'CN=a\\"b\\\\c\\<d\\>,STREET=x'),
        ("CN=\\ \\ ", "CN=\\ \\ "),
        ("CN=\\#x,O=a/b*_'(&)", "CN=\\#x,O=a/b*_'(&)"),
        ("2.5.4.4=Sur,CN=x", "2.5.4.4=#0c03537572,CN=x"),
    ],
)
def test_a_subject(given: str, expected: str) -> None:
    """Each is what X500Principal.getName() of Java 17 gives for the same certificate."""
    assert subject_name(der(given)) == expected


def test_bytes_that_are_no_certificate() -> None:
    good = der("CN=alice")
    for end in range(0, len(good), 7):
        with pytest.raises(ValueError):
            subject_name(good[:end])
    with pytest.raises(ValueError):
        subject_name(b"\x30\x03\x30\x01\x00")


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_rules(subject: str, name: str) -> None:
    assert PrincipalMapper(RULES).name(subject) == name


def test_a_rule_matches_the_whole_subject_and_keeps_unknown_groups() -> None:
    assert PrincipalMapper("RULE:CN=a/x/").name("CN=a,O=b") is None
    assert PrincipalMapper(r"RULE:^CN=(\w+)\/(\w+)$/$2\/$1-$3/").name("CN=a/b") == "b/a-$3"
    assert PrincipalMapper(" , DEFAULT,").name("CN=a") == "CN=a"


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/LU",
        "RULE:(/x/",
    ],
)
def test_rules_that_cannot_be_read(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        PrincipalMapper(rules)
