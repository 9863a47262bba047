"""A client's security settings: Kafka's `security.protocol`, `sasl.*` and `ssl.*` properties, as one checked value; as librdkafka's, too.

Of `sasl.jaas.config`, a Java login module with its options, Kafka's two modules with passwords and the one with tokens are supported, by
their short and full names. Certificates and keys are PEM or in PKCS12 stores; a store of Java's own (JKS) is refused with the command that
turns it into PEM. It reads no file and opens no connection. Source: KIP-651 (PEM), Kafka's SslConfigs and SaslConfigs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ottla.client.security.token_endpoint import URL, EndpointTokens, check_url
from ottla.client.security.tokens import (
    CallbackTokens,
    FileTokens,
    OAuthCallback,
    TokenProvider,
    TokenSource,
    UnsecuredTokens,
    parse_pairs,
    parse_unsecured,
    parse_unsecured_options,
    taken,
)
from ottla.config.client_properties import is_security, read_properties
from ottla.config.client_property import Client
from ottla.security.jaas import OAUTH_MODULES, PLAIN_MODULES, SCRAM_MODULES, module_options


def parse_jaas(text: str, *, is_scram: bool) -> tuple[str, str]:
    """User and password. Raises ValueError for malformed text or a module of another mechanism; no message shows the password."""
    modules = SCRAM_MODULES if is_scram else PLAIN_MODULES
    form = f'sasl.jaas.config must read: {modules[1]} required username="..." password="...";'
    options = module_options(text, modules, form)
    if not options.get("username") or not options.get("password"):
        raise ValueError(form)
    unknown = sorted(set(options) - {"username", "password"})
    if unknown:
        raise ValueError(f"sasl.jaas.config has the option {unknown[0]}, which is not supported: leave it out")
    return options["username"], options["password"]


def parse_oauth_jaas(text: str) -> dict[str, str]:
    """The options of the module with tokens, which are none where a callback or a file gives them. Raises ValueError."""
    return module_options(
        text, OAUTH_MODULES, f'sasl.jaas.config must read: {OAUTH_MODULES[1]} required unsecuredLoginStringClaim_sub="...";'
    )


PLAINTEXT_PROTOCOL, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PLAIN, SCRAM_SHA_256, SCRAM_SHA_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
_LOGIN_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
PEM, PKCS12 = "PEM", "PKCS12"
_TO_PEM: Final = {
    "truststore": "keytool -list -rfc -keystore {} > truststore.pem",
    "keystore": "keytool -importkeystore -srckeystore {} -destkeystore keystore.p12 -deststoretype PKCS12",
}
"""The commands that turn a Java key store into one that can be read."""
TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"
_BOTH: Final = frozenset({TLS_1_2, TLS_1_3})


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """The result of `parse_security`; hashable, picklable, and its repr shows no secret.

    `truststore_*`: which certificates are trusted, as a file's path or as PEM text (neither: the machine's own list). `keystore_*`: the
    client's own certificate and key, as a path of one file or as two PEM texts. A file is PEM unless its store `is_pkcs12`.
    `tls_versions`: those that may be spoken. `tokens`: with OAUTHBEARER.
    """

    protocol: str = PLAINTEXT_PROTOCOL
    sasl_mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    truststore_location: str = ""
    truststore_certificates: str = field(default="", repr=False)
    truststore_is_pkcs12: bool = False
    truststore_password: str = field(default="", repr=False)
    keystore_location: str = ""
    keystore_is_pkcs12: bool = False
    keystore_password: str = field(default="", repr=False)
    keystore_certificate_chain: str = field(default="", repr=False)
    keystore_key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    checks_hostname: bool = True
    tls_versions: frozenset[str] = _BOTH
    tokens: TokenProvider | None = None

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.protocol in (SSL, SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether the client authenticates with a password or a token."""
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)


PLAINTEXT: Final = SecuritySettings()


def parse_security(properties: Mapping[str, Any], oauth_cb: OAuthCallback | None = None) -> SecuritySettings:
    """The security settings in a client's properties (other properties are ignored). `oauth_cb` gives tokens for OAUTHBEARER.

    Raises ValueError with a sentence that names the property that is wrong, incomplete or not supported.
    """
    properties = read_properties({name: value for name, value in properties.items() if is_security(name)}, Client.RANGES)
    protocol = properties.get("security.protocol", PLAINTEXT_PROTOCOL)
    mechanism = _mechanism(properties, protocol)
    tokens = _tokens(properties, oauth_cb) if mechanism == OAUTHBEARER else None
    username, password = _password(properties, mechanism) if mechanism and tokens is None else ("", "")
    truststore_location, truststore_certificates = _truststore(properties)
    keystore_location, chain, key = _keystore(properties)
    return SecuritySettings(
        protocol=protocol,
        sasl_mechanism=mechanism,
        username=username,
        password=password,
        truststore_location=truststore_location,
        truststore_certificates=truststore_certificates,
        truststore_is_pkcs12=_is_pkcs12(properties, "truststore", truststore_location, is_used=bool(truststore_certificates)),
        truststore_password=properties.get("ssl.truststore.password", ""),
        keystore_location=keystore_location,
        keystore_is_pkcs12=_is_pkcs12(properties, "keystore", keystore_location, is_used=bool(chain)),
        keystore_password=properties.get("ssl.keystore.password", ""),
        keystore_certificate_chain=chain,
        keystore_key=key,
        key_password=properties.get("ssl.key.password", ""),
        checks_hostname=_checks_hostname(properties),
        tls_versions=_tls_versions(properties),
        tokens=None if tokens is None else TokenProvider(tokens),
    )


def to_librdkafka(security: SecuritySettings) -> dict[str, str]:
    """The same settings as librdkafka's properties, for confluent-kafka. Raises ValueError for what it cannot have."""
    if security.truststore_is_pkcs12:
        raise ValueError("ssl.truststore.type=PKCS12 cannot be handed to librdkafka, which trusts certificates in PEM: set it to PEM")
    if security.tls_versions != _BOTH:
        raise ValueError("ssl.enabled.protocols cannot be handed to librdkafka, which speaks TLS 1.2 and 1.3: leave it out")
    key = "ssl.keystore.location" if security.keystore_is_pkcs12 else "ssl.key.location"
    config = {
        "security.protocol": security.protocol,
        "sasl.mechanism": security.sasl_mechanism,
        "sasl.username": security.username,
        "sasl.password": security.password,
        "ssl.ca.location": security.truststore_location,
        "ssl.ca.pem": security.truststore_certificates,
        "ssl.certificate.location": "" if security.keystore_is_pkcs12 else security.keystore_location,
        key: security.keystore_location,
        "ssl.keystore.password": security.keystore_password,
        "ssl.certificate.pem": security.keystore_certificate_chain,
        "ssl.key.pem": security.keystore_key,
        "ssl.key.password": security.key_password,
    }
    if security.uses_tls:
        config["ssl.endpoint.identification.algorithm"] = "https" if security.checks_hostname else "none"
    if security.tokens is not None:
        config |= _tokens_for_librdkafka(security.tokens.source)
    return {name: value for name, value in config.items() if value}


def _mechanism(properties: Mapping[str, str], protocol: str) -> str:
    """The mechanism; empty without SASL."""
    if protocol not in (SASL_PLAINTEXT, SASL_SSL):
        return ""
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        default = "" if "sasl.mechanism" in properties else " (Kafka's default)"
        raise ValueError(f"sasl.mechanism must be one of {', '.join(MECHANISMS)}: {mechanism}{default} is not supported")
    return mechanism


def _password(properties: Mapping[str, str], mechanism: str) -> tuple[str, str]:
    """User and password."""
    if "sasl.jaas.config" not in properties:
        raise ValueError(f"sasl.jaas.config is needed with sasl.mechanism={mechanism}: it holds user and password")
    return parse_jaas(properties["sasl.jaas.config"], is_scram=mechanism != PLAIN)


def _tokens(properties: Mapping[str, Any], oauth_cb: OAuthCallback | None) -> TokenSource:
    """Where tokens come from: exactly one place."""
    options = parse_oauth_jaas(properties["sasl.jaas.config"]) if "sasl.jaas.config" in properties else {}
    handler = properties.get("sasl.login.callback.handler.class", _LOGIN_HANDLERS[0])
    if handler not in _LOGIN_HANDLERS:
        raise ValueError(f"sasl.login.callback.handler.class can only be {_LOGIN_HANDLERS[0]}")
    config, url = properties.get("sasl.oauthbearer.config", ""), properties.get(URL, "")
    if properties.get("sasl.oauthbearer.method") == "oidc" and not url:
        raise ValueError(f"sasl.oauthbearer.method=oidc needs {URL}")
    is_unsecured = properties.get("enable.sasl.oauthbearer.unsecure.jwt", "false").strip().lower() == "true"
    given = {
        "oauth_cb": oauth_cb is not None,
        URL: bool(url),
        "enable.sasl.oauthbearer.unsecure.jwt": is_unsecured,
        "the options of sasl.jaas.config": bool(options) and not url,
    }
    names = [name for name, is_given in given.items() if is_given]
    if len(names) != 1:
        found = f"{' and '.join(names)} are set" if names else "none is set"
        raise ValueError(f"sasl.mechanism=OAUTHBEARER needs tokens from one of {', '.join(given)}: {found}")
    if oauth_cb is not None:
        return CallbackTokens(oauth_cb, config)
    if url:
        return _tokens_of_url(url, properties, options)
    return parse_unsecured(config) if is_unsecured else parse_unsecured_options(options)


def _tokens_of_url(url: str, properties: Mapping[str, Any], options: dict[str, str]) -> TokenSource:
    """Of a file, or of an OAuth server; `options` of the login module stand where a property is not set (KIP-768, KIP-1139)."""
    extensions = taken(options, "extension_")
    if "sasl.oauthbearer.extensions" in properties:
        extensions += parse_pairs("sasl.oauthbearer.extensions", properties["sasl.oauthbearer.extensions"].split(","))
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = unquote(parts.path)
        if parts.netloc or not PurePosixPath(path).is_absolute() or options:
            raise ValueError(f"{URL} must be file:///path of a token, without options of sasl.jaas.config, not {url!r}")
        return FileTokens(path, extensions)
    check_url(url)
    credentials = "sasl.oauthbearer.client.credentials.client."
    client_id, secret = options.pop("clientId", ""), options.pop("clientSecret", "")
    client_id, secret = properties.get(f"{credentials}id", client_id), properties.get(f"{credentials}secret", secret)
    scope = properties.get("sasl.oauthbearer.scope", options.pop("scope", ""))
    if options:
        raise ValueError(f"sasl.jaas.config has the option {min(options)}, which is not supported: leave it out")
    if not client_id or not secret:
        raise ValueError(f"{URL} needs {credentials}id and {credentials}secret")
    ca_location, ca_pem = properties.get("https.ca.location", ""), properties.get("https.ca.pem", "")
    if ca_location and ca_pem:
        raise ValueError("https.ca.location and https.ca.pem are both set: leave one out")
    return EndpointTokens(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=scope,
        extensions=extensions,
        encodes=properties.get("sasl.oauthbearer.header.urlencode", False),
        ca_location=ca_location,
        ca_pem=ca_pem,
        connect_timeout_ms=properties.get("sasl.login.connect.timeout.ms", EndpointTokens.connect_timeout_ms),
        read_timeout_ms=properties.get("sasl.login.read.timeout.ms", EndpointTokens.read_timeout_ms),
        retry_backoff_ms=properties.get("sasl.login.retry.backoff.ms", EndpointTokens.retry_backoff_ms),
        retry_backoff_max_ms=properties.get("sasl.login.retry.backoff.max.ms", EndpointTokens.retry_backoff_max_ms),
    )


def _tokens_for_librdkafka(source: TokenSource) -> dict[str, str]:
    if isinstance(source, UnsecuredTokens):
        return _unsecured_for_librdkafka(source)
    if not isinstance(source, EndpointTokens):
        raise ValueError("tokens of a callback or a file cannot be handed to librdkafka by properties: give its own clients an oauth_cb")
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": source.url,
        "sasl.oauthbearer.client.id": source.client_id,
        "sasl.oauthbearer.client.secret": source.client_secret,
        "sasl.oauthbearer.scope": source.scope,
        "sasl.oauthbearer.extensions": ",".join(f"{key}={value}" for key, value in source.extensions),
        "https.ca.location": source.ca_location,
        "https.ca.pem": source.ca_pem,
    }


def _unsecured_for_librdkafka(source: UnsecuredTokens) -> dict[str, str]:
    words = [f"principal={source.principal}", f"lifeSeconds={source.life_seconds}"]
    for name, value in source.claims:
        if value == source.principal:
            words.append(f"principalClaimName={name}")
        elif isinstance(value, tuple):
            words += [f"scopeClaimName={name}", f"scope={','.join(value)}"]
    words += [f"extension_{key}={value}" for key, value in source.extensions]
    return {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": " ".join(words)}


def _truststore(properties: Mapping[str, str]) -> tuple[str, str]:
    location, certificates = properties.get("ssl.truststore.location", ""), properties.get("ssl.truststore.certificates", "")
    if location and certificates:
        raise ValueError("ssl.truststore.location and ssl.truststore.certificates are both set: leave one out")
    return location, certificates


def _keystore(properties: Mapping[str, str]) -> tuple[str, str, str]:
    location = properties.get("ssl.keystore.location", "")
    chain, key = properties.get("ssl.keystore.certificate.chain", ""), properties.get("ssl.keystore.key", "")
    if location and (chain or key):
        raise ValueError("ssl.keystore.location is set beside ssl.keystore.certificate.chain or ssl.keystore.key: leave one out")
    if bool(chain) != bool(key):
        raise ValueError("ssl.keystore.certificate.chain and ssl.keystore.key belong together: one of them is not set")
    return location, chain, key


def _is_pkcs12(properties: Mapping[str, str], store: str, location: str, *, is_used: bool) -> bool:
    """Whether the file of a store is PKCS12, else PEM. `is_used`: certificates are given as PEM texts."""
    name = f"ssl.{store}.type"
    kind = properties.get(name, "JKS" if location or is_used else PEM).strip().upper()
    has_password = bool(properties.get(f"ssl.{store}.password"))
    if kind == PKCS12 and location:
        return True
    if kind == PEM:
        if has_password:
            raise ValueError(f"ssl.{store}.password is of a PKCS12 store: set {name}=PKCS12, or leave it out (a key's is ssl.key.password)")
        return False
    default = "" if name in properties else ", Kafka's default,"
    how = f" keytool makes PKCS12 since Java 9; turn an older store into it or PEM: {_TO_PEM[store].format(location or f'the {store}')}"
    raise ValueError(f"{name} must be PEM, or PKCS12 for a file: {kind}{default} is not supported.{how if kind == 'JKS' else ''}")


def _tls_versions(properties: Mapping[str, str]) -> frozenset[str]:
    versions = frozenset(part.strip() for part in properties.get("ssl.enabled.protocols", f"{TLS_1_2},{TLS_1_3}").split(","))
    if not versions <= _BOTH:
        raise ValueError(f"ssl.enabled.protocols can be {TLS_1_2}, {TLS_1_3} or both, not {properties['ssl.enabled.protocols']!r}")
    protocol = properties.get("ssl.protocol", "TLS").strip()
    if protocol not in ("TLS", TLS_1_2, TLS_1_3):
        raise ValueError(f"ssl.protocol can be {TLS_1_2} or {TLS_1_3}, not {protocol!r}")
    if protocol == TLS_1_2:
        versions -= {TLS_1_3}
    if not versions:
        raise ValueError(f"ssl.enabled.protocols={TLS_1_3} and ssl.protocol={TLS_1_2} leave no version of TLS")
    return versions


def _checks_hostname(properties: Mapping[str, str]) -> bool:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", ""):
        raise ValueError(f"ssl.endpoint.identification.algorithm must be https, or empty to trust any host name, not {algorithm!r}")
    return algorithm == "https"
