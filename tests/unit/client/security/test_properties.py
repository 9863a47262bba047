"""security.protocol, sasl.* and ssl.*: supported and refused values."""

import pickle
from typing import Any

import pytest

from ottla.client.security.properties import PLAINTEXT, SecuritySettings, parse_jaas, parse_oauth_jaas, parse_security, to_librdkafka
from ottla.client.security.token_endpoint import EndpointTokens
from ottla.client.security.tokens import CallbackTokens, FileTokens, UnsecuredTokens

PEM = {"ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
SCRAM = {
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hidden";',
}
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = {"sasl.oauthbearer.client.credentials.client.id": "me", "sasl.oauthbearer.client.credentials.client.secret": "hidden"}
UNSECURED = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice scope=r,w extension_a=b"}


def test_the_default_is_plaintext() -> None:
    assert parse_security({"client.id": "x"}) == PLAINTEXT
    assert parse_security({"security.protocol": "plaintext"} | SCRAM) == PLAINTEXT, "settings of what is not used, as in Kafka"
    assert not PLAINTEXT.uses_tls
    assert not PLAINTEXT.uses_sasl


def test_every_property() -> None:
    security = parse_security(
        {"security.protocol": "SASL_SSL", "ssl.truststore.location": "/ca", "ssl.keystore.location": "/me", "ssl.key.password": "k"}
        | SCRAM
        | PEM
    )
    assert security == SecuritySettings(
        protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        username="u",
        password="hidden",
        truststore_location="/ca",
        keystore_location="/me",
        key_password="k",
    )
    assert security.uses_tls
    assert security.uses_sasl
    assert "hidden" not in repr(security)
    assert pickle.loads(pickle.dumps(security)) == security
    assert hash(security) == hash(pickle.loads(pickle.dumps(security)))


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, r"sasl.mechanism must be one of .*: GSSAPI \(Kafka's default\) is not supported"),
        (OAUTH, "needs tokens from one of oauth_cb, .*: none is set"),
        (OAUTH | {URL: "file://h/token"}, "must be file:///path of a token"),
        (OAUTH | {URL: "http://h/token"} | CREDENTIALS, "must be https://... of an OAuth server .http:// only to this machine."),
        (OAUTH | {URL: "https://u:p@h/token"} | CREDENTIALS, "has a user, a password or a fragment"),
        (OAUTH | {URL: "https://h:x/"} | CREDENTIALS, "is no URL"),
        (OAUTH | {URL: "https://h/token"}, "needs sasl.oauthbearer.client.credentials.client.id and .*secret"),
        (OAUTH | {URL: "https://h", "https.ca.location": "/a", "https.ca.pem": "b"} | CREDENTIALS, "https.ca.pem are both set"),
        (OAUTH | {URL: "https://h", "sasl.oauthbearer.extensions": "a"} | CREDENTIALS, "sasl.oauthbearer.extensions must hold name=value"),
        (OAUTH | {URL: "https://h", "sasl.jaas.config": 'OAuthBearerLoginModule required ask="x";'} | CREDENTIALS, "has the option ask"),
        (OAUTH | {"sasl.oauthbearer.method": "oidc"}, "sasl.oauthbearer.method=oidc needs sasl.oauthbearer.token.endpoint.url"),
        (OAUTH | UNSECURED | {URL: "file:///t"}, "url and enable.*jwt are set"),
        (OAUTH | {"sasl.login.callback.handler.class": "x"}, "can only be .*OAuthBearerLoginCallbackHandler"),
        (OAUTH | {"sasl.jaas.config": "PlainLoginModule required;"}, "It names PlainLoginModule"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config is needed"),
        (
            {"sasl.oauthbearer.jwks.endpoint.url": "x"},
            "sasl.oauthbearer.jwks.endpoint.url is not supported: tokens come from oauth_cb, or from",
        ),
        ({"sasl.login.class": "x"}, "sasl.login.class is not supported"),
        ({"security.providers": "x"}, "security.providers is not supported: leave it out"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites is not supported"),
        ({"ssl.truststore.location": "/t", "ssl.truststore.password": "x"} | PEM, "ssl.truststore.password is of a PKCS12 store"),
        ({"ssl.truststore.location": "/t"}, r"must be PEM, .* JKS, Kafka's default, is not supported. .*keytool -list -rfc -keystore /t >"),
        ({"ssl.truststore.certificates": "x", "ssl.truststore.type": "PKCS12"}, "must be PEM, or PKCS12 for a file"),
        ({"ssl.keystore.location": "/k", "ssl.keystore.type": "jks"}, "keytool -importkeystore -srckeystore /k"),
        ({"ssl.keystore.key": "x"} | PEM, "belong together"),
        ({"ssl.keystore.location": "/k", "ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "y"} | PEM, "leave one out"),
        ({"ssl.truststore.location": "/k", "ssl.truststore.certificates": "x"} | PEM, "leave one out"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols can be TLSv1.2, TLSv1.3 or both, not 'TLSv1.1,TLSv1.2'"),
        ({"ssl.protocol": "SSLv3"}, "ssl.protocol can be TLSv1.2 or TLSv1.3"),
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"}, "leave no version of TLS"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "ssl.endpoint.identification.algorithm must be https"),
    ],
)
def test_refusals_say_what_to_do(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_security(properties)


@pytest.mark.parametrize(
    ("security", "words"),
    [
        (PLAINTEXT, {"security.protocol": "PLAINTEXT"}),
        (
            SecuritySettings(protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", username="u", password="p"),
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
        ),
        (
            SecuritySettings(protocol="SSL", truststore_location="/t", keystore_location="/k", key_password="p", checks_hostname=False),
            {
                "security.protocol": "SSL",
                "ssl.ca.location": "/t",
                "ssl.certificate.location": "/k",
                "ssl.key.location": "/k",
                "ssl.key.password": "p",
                "ssl.endpoint.identification.algorithm": "none",
            },
        ),
        (
            SecuritySettings(protocol="SSL", truststore_certificates="T", keystore_certificate_chain="C", keystore_key="K"),
            {
                "security.protocol": "SSL",
                "ssl.ca.pem": "T",
                "ssl.certificate.pem": "C",
                "ssl.key.pem": "K",
                "ssl.endpoint.identification.algorithm": "https",
            },
        ),
    ],
)
def test_as_librdkafka_s_properties(security: SecuritySettings, words: dict[str, Any]) -> None:
    assert to_librdkafka(security) == words


def tokens(properties: dict[str, str], oauth_cb: Any = None) -> Any:
    provider = parse_security(OAUTH | properties, oauth_cb).tokens
    assert provider is not None
    return provider.source


def test_where_tokens_come_from() -> None:
    def callback(config: str) -> tuple[str, float]:
        return config, 1.0

    assert tokens({"sasl.oauthbearer.config": "x"}, callback) == CallbackTokens(callback, "x")
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    of_file = {URL: "file:///var/run/a%20token", "sasl.login.callback.handler.class": handler}
    assert tokens(of_file) == FileTokens("/var/run/a token")
    scoped = UnsecuredTokens("alice", (("sub", "alice"), ("scope", ("r", "w"))), 3_600, (("a", "b"),))
    assert tokens(UNSECURED) == scoped
    module = 'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";'
    assert tokens({"sasl.jaas.config": module}) == UnsecuredTokens("alice", (("sub", "alice"),))


def test_an_oauth_server_by_properties_and_by_options_of_the_module() -> None:
    url = {URL: "https://h:8443/token?x=1"}
    expected = EndpointTokens(url=url[URL], client_id="me", client_secret="hidden", scope="r w", extensions=(("a", "b"),))
    assert tokens(url | CREDENTIALS | {"sasl.oauthbearer.scope": "r w", "sasl.oauthbearer.extensions": "a=b"}) == expected
    module = 'OAuthBearerLoginModule required clientId="me" clientSecret="hidden" scope="r w" extension_a="b";'
    assert tokens(url | {"sasl.jaas.config": module}) == expected
    assert tokens(url | {"sasl.jaas.config": module.replace("hidden", "old")} | CREDENTIALS) == expected, "properties come first"
    assert "hidden" not in repr(expected)
    trusting = tokens({URL: "http://127.0.0.1/"} | CREDENTIALS | {"https.ca.location": "/ca", "sasl.login.read.timeout.ms": "5"})
    assert (trusting.ca_location, trusting.read_timeout_ms, trusting.connect_timeout_ms) == ("/ca", 5, 10_000)


def test_stores_and_versions() -> None:
    stores = {"ssl.keystore.location": "/k", "ssl.keystore.type": "pkcs12", "ssl.keystore.password": "p"}
    security = parse_security(stores | {"ssl.enabled.protocols": "TLSv1.3"})
    assert (security.keystore_is_pkcs12, security.keystore_password, security.tls_versions) == (True, "p", frozenset({"TLSv1.3"}))
    assert parse_security({"ssl.protocol": "TLSv1.2"}).tls_versions == {"TLSv1.2"}
    config = to_librdkafka(parse_security(stores))
    assert config == {"security.protocol": "PLAINTEXT", "ssl.keystore.location": "/k", "ssl.keystore.password": "p"}
    for properties in ({"ssl.protocol": "TLSv1.2"}, {"ssl.truststore.location": "/t", "ssl.truststore.type": "PKCS12"}):
        with pytest.raises(ValueError, match="cannot be handed to librdkafka"):
            to_librdkafka(parse_security(properties))


def test_settings_with_tokens_are_hashable_and_picklable() -> None:
    first, second = (parse_security(OAUTH | UNSECURED) for _ in range(2))
    assert first == second == pickle.loads(pickle.dumps(first))
    assert hash(first) == hash(second)
    assert (first.username, first.password) == ("", "")


def test_tokens_for_librdkafka() -> None:
    config = to_librdkafka(parse_security(OAUTH | UNSECURED))
    assert config["enable.sasl.oauthbearer.unsecure.jwt"] == "true"
    assert tokens({name: config[name] for name in UNSECURED}) == tokens(UNSECURED)
    config = to_librdkafka(parse_security(OAUTH | CREDENTIALS | {URL: "https://h", "https.ca.pem": "CA"}))
    assert config["sasl.oauthbearer.method"] == "oidc"
    assert (config[URL], config["sasl.oauthbearer.client.secret"], config["https.ca.pem"]) == ("https://h", "hidden", "CA")
    with pytest.raises(ValueError, match="cannot be handed to librdkafka"):
        to_librdkafka(parse_security(OAUTH | {URL: "file:///t"}))


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_ENTRY = "org.apache.kafka.common.security.scram.ScramLoginModule"


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
    assert parse_jaas(f'{SCRAM_ENTRY} required username="a b" password="x;\\"y\\\\=\'";', is_scram=True) == ("a b", "x;\"y\\='")


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{PLAIN} required;",
        f'{PLAIN} required username="u" password="hidden"',
        f'{PLAIN} username="u" password="hidden";',
        f'{PLAIN} required username="u" password="";',
        f'{PLAIN} required username="u" password="hidden" and more;',
        f'{SCRAM_ENTRY} required username="u" password="hidden";',
        'com.sun.security.auth.module.Krb5LoginModule required username="u" password="hidden";',
    ],
)
def test_errors_show_the_format_and_no_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"sasl.jaas.config must read: org.apache.kafka.common.security.plain.PlainLoginModule") as raised:
        parse_jaas(text, is_scram=False)
    assert "hidden" not in str(raised.value)


def test_options_that_mean_something_else() -> None:
    with pytest.raises(ValueError, match="the option tokenauth, which is not supported"):
        parse_jaas(f'{SCRAM_ENTRY} required username="u" password="p" tokenauth="true";', is_scram=True)


def test_the_module_with_tokens_may_have_no_options() -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    assert parse_oauth_jaas(f"{module} required;") == {}
    assert parse_oauth_jaas(f'{module} required unsecuredLoginStringClaim_sub="a b" x=1;') == {
        "unsecuredLoginStringClaim_sub": "a b",
        "x": "1",
    }
    with pytest.raises(ValueError, match=f"must read: {module} .*It names {PLAIN}"):
        parse_oauth_jaas(f'{PLAIN} required username="u" password="p";')
