"""sasl.jaas.config in its notations."""

import pytest

from ottla.client.security.jaas import parse_jaas, parse_oauth_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} required username="u" password="p";',
        f"  {PLAIN}   REQUIRED\n  password='p'\n  username=u ;  ",
        'PlainLoginModule optional username = "u" password = "p" ;',
        f'kafkashaded.{PLAIN} required username="u" password="p";',
    ],
)
def test_forms_of_the_same(text: str) -> None:
    assert parse_jaas(text, is_scram=False) == ("u", "p")


def test_quoted_letters_and_semicolons() -> None:
    assert parse_jaas(f'{SCRAM} required username="a b" password="x;\\"y\\\\=\'";', is_scram=True) == ("a b", "x;\"y\\='")


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{PLAIN} required;",
        f'{PLAIN} required username="u" password="hidden"',
        f'{PLAIN} username="u" password="hidden";',
        f'{PLAIN} required username="u" password="";',
        f'{PLAIN} required username="u" password="hidden" and more;',
        f'{SCRAM} required username="u" password="hidden";',
        'com.sun.security.auth.module.Krb5LoginModule required username="u" password="hidden";',
    ],
)
def test_errors_show_the_format_and_no_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"sasl.jaas.config must read: org.apache.kafka.common.security.plain.PlainLoginModule") as raised:
        parse_jaas(text, is_scram=False)
    assert "hidden" not in str(raised.value)


def test_options_that_mean_something_else() -> None:
    with pytest.raises(ValueError, match="the option tokenauth, which is not supported"):
        parse_jaas(f'{SCRAM} required username="u" password="p" tokenauth="true";', is_scram=True)


def test_the_module_with_tokens_may_have_no_options() -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    assert parse_oauth_jaas(f"{module} required;") == {}
    assert parse_oauth_jaas(f'{module} required unsecuredLoginStringClaim_sub="a b" x=1;') == {
        "unsecuredLoginStringClaim_sub": "a b",
        "x": "1",
    }
    with pytest.raises(ValueError, match=f"must read: {module} .*It names {PLAIN}"):
        parse_oauth_jaas(f'{PLAIN} required username="u" password="p";')
