"""The broker's settings about TLS and SASL, and which of them a listener may have for itself: `listener.name.<listener>.<setting>`.

Sources: Kafka's SslConfigs, SaslConfigs, BrokerSecurityConfigs; KIP-103 (prefixes), KIP-651 (PEM), KIP-368 (re-authentication), KIP-768.
"""

from collections.abc import Callable
from typing import Final

from ottla.config.setting import ConfigType, Setting, number_setting, shown

PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
SERVED_MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
OPEN_LISTENERS: Final = "allow.unauthenticated.listeners"
"""Ottla's own: that a listener off loopback is open to everybody must be said in words."""
_HANDLER: Final = "sasl.server.callback.handler.class"
_HANDLERS: Final = {
    "PlainServerCallbackHandler",
    "ScramServerCallbackHandler",
    "OAuthBearerValidatorCallbackHandler",
    "OAuthBearerUnsecuredValidatorCallbackHandler",
}
"""Kafka's own, by the last parts of their names."""
_STORES: Final = ("JKS", "PKCS12", "PEM")


def _string(name: str, default: str, doc: str, choices: tuple[str, ...] = ()) -> Setting:
    return Setting(name=name, type=ConfigType.STRING, default=default, doc=doc, choices=choices)


def _list(name: str, default: str, doc: str, choices: tuple[str, ...] = ()) -> Setting:
    return Setting(name=name, type=ConfigType.LIST, default=default, doc=doc, choices=choices)


def _password(name: str, doc: str) -> Setting:
    return Setting(name=name, type=ConfigType.PASSWORD, default="", doc=doc)


_OF_LISTENERS: Final = (
    _string("ssl.keystore.type", "JKS", "What the key store is: PEM or PKCS12; JKS is refused (`ottla docs security`).", _STORES),
    _string("ssl.keystore.location", "", "The file with the broker's certificates and key: of PEM, the key and the chain in one."),
    _password("ssl.keystore.password", "The password of a PKCS12 key store."),
    _password("ssl.keystore.certificate.chain", "The broker's certificates as PEM text, its own first; with ssl.keystore.key."),
    _password("ssl.keystore.key", "The broker's private key as PEM text."),
    _password("ssl.key.password", "The password of an encrypted private key."),
    _string("ssl.truststore.type", "JKS", "What the trust store is: PEM or PKCS12; JKS is refused.", _STORES),
    _string("ssl.truststore.location", "", "The file with the certificates that sign clients' certificates."),
    _password("ssl.truststore.password", "The password of a PKCS12 trust store."),
    _password("ssl.truststore.certificates", "The certificates that sign clients' certificates, as PEM text."),
    _string(
        "ssl.client.auth",
        "none",
        "Whether clients show a certificate; on a listener with SASL only listener.name.<listener>.ssl.client.auth counts.",
        ("required", "requested", "none"),
    ),
    _list("ssl.enabled.protocols", "TLSv1.2,TLSv1.3", "The versions of TLS that are spoken.", ("TLSv1.2", "TLSv1.3")),
    _string("ssl.principal.mapping.rules", "DEFAULT", "How a client certificate's subject becomes a user's name (KIP-371)."),
    _list("sasl.enabled.mechanisms", "GSSAPI", f"The mechanisms of SASL listeners: {', '.join(SERVED_MECHANISMS)}; GSSAPI is not served."),
    _password(
        "sasl.jaas.config",
        'The users of PLAIN: only as listener.name.<listener>.plain.sasl.jaas.config, with options user_<name>="<password>";'
        " and for OAUTHBEARER, whom to trust when keys are read over https, with options ssl.truststore.*.",
    ),
    Setting(
        name=_HANDLER,
        type=ConfigType.CLASS,
        default="",
        doc="How tokens are checked: by their signature, unless it names OAuthBearerUnsecuredValidatorCallbackHandler.",
    ),
    number_setting(ConfigType.INT, "sasl.server.max.receive.size", 524288, "Largest request before a client is authenticated, in bytes."),
    number_setting(
        ConfigType.LONG,
        "connections.max.reauth.ms",
        0,
        "After so long clients of SASL listeners have to authenticate again (KIP-368), in ms; 0: never.",
    ),
    number_setting(ConfigType.INT, "sasl.oauthbearer.clock.skew.seconds", 30, "By so much clocks may differ when tokens expire, in s.", 0),
    _list("sasl.oauthbearer.expected.audience", "", "Whom tokens must be for: one of these has to be among a token's aud."),
    _string("sasl.oauthbearer.expected.issuer", "", "Who must have issued tokens (iss)."),
    _string("sasl.oauthbearer.jwks.endpoint.url", "", "Where the issuer's public keys are: https://... or file:///..."),
    number_setting(
        ConfigType.LONG, "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3600000, "How often the issuer's keys are read again, in ms.", 1000
    ),
    _string("sasl.oauthbearer.sub.claim.name", "sub", "The claim of a token that names its user."),
    _string("sasl.oauthbearer.scope.claim.name", "scope", "The claim of a token with its scope."),
)
LISTENER_SETTINGS: Final = {setting.name: setting for setting in _OF_LISTENERS}
"""The settings that a listener may have for itself, by name."""

SECURITY_SETTINGS: Final = (
    *_OF_LISTENERS,
    number_setting(
        ConfigType.INT,
        "connection.failed.authentication.delay.ms",
        100,
        "How long the answer to a client that could not authenticate is held back (KIP-306), in ms.",
        0,
    ),
    Setting(
        name=OPEN_LISTENERS,
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether listeners and metrics that other machines reach may be open to everybody (no setting of Kafka's).",
        is_internal=True,
    ),
)
DYNAMIC_IN_KAFKA: Final = frozenset(
    name for name in LISTENER_SETTINGS if name.startswith("ssl.") and name != "ssl.principal.mapping.rules"
) | {"sasl.enabled.mechanisms", "sasl.jaas.config"}
"""Described as in Kafka as settings that may change; here only stores are read again (`ottla docs security`)."""
NULL_IN_KAFKA: Final = frozenset(setting.name for setting in _OF_LISTENERS if not setting.default and setting.type is not ConfigType.LIST)
"""Those whose default is none, and not an empty text."""

_PREFIX: Final = "listener.name."


def listener_prefix(listener: str) -> str:
    """What the settings of one listener begin with."""
    return f"{_PREFIX}{listener.lower()}."


def is_of_listener(name: str) -> bool:
    """Whether a setting is that of one listener."""
    return name.startswith(_PREFIX)


def listener_setting(name: str) -> Setting | None:
    """The setting that `listener.name.<listener>[.<mechanism>].<setting>` is for; None when there is none."""
    return next((setting for setting in _OF_LISTENERS if name.endswith(f".{setting.name}")), None) if is_of_listener(name) else None


def handler_problem(text: Callable[[str], str]) -> str | None:
    """Why callbacks cannot be those that a class handles; `text` gives the class by the setting's name."""
    handler = text(_HANDLER).strip()
    if not handler or handler.rpartition(".")[2] in _HANDLERS:
        return None
    return f"{_HANDLER}: {shown(handler)} is Java and cannot be loaded here: leave it out, or name one of Kafka's own"


class ListenerSettings:
    """The settings in force on one listener. `text` gives a given or default value by name, `given` only those that were given."""

    def __init__(self, listener: str, given: Callable[[str], str | None]) -> None:
        self.listener = listener
        self._given = given

    def text(self, name: str, mechanism: str = "") -> str:
        """The value for a mechanism of the listener, for the listener, or for all."""
        prefix = listener_prefix(self.listener)
        names = [f"{prefix}{mechanism.lower()}.{name}"] * bool(mechanism) + [prefix + name, name]
        return next((value for each in names if (value := self._given(each)) is not None), LISTENER_SETTINGS[name].default)

    def own_text(self, name: str, mechanism: str = "") -> str | None:
        """The value that was given to the listener, or to its mechanism, alone; None where there is none."""
        return self._given(f"{listener_prefix(self.listener)}{mechanism.lower() + '.' if mechanism else ''}{name}")

    def number(self, name: str, mechanism: str = "") -> int:
        """The value of a whole-number setting."""
        value = LISTENER_SETTINGS[name].parse(self.text(name, mechanism))
        assert isinstance(value, int)
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """The items of a list."""
        value = LISTENER_SETTINGS[name].parse(self.text(name))
        assert isinstance(value, tuple)
        return value
