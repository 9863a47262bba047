"""`SecuredBroker`: a broker with a listener for each way to authenticate, and the settings with which clients come in.

Its certificates, users and tokens are made in memory when it starts. The verbs of tests use a listener of their own, which is plain.
"""

import ssl
import time
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final
from weakref import finalize

from ottla.config import GivenValue
from ottla.testing.application.brokers import Broker
from ottla.testing.security.certificates import HOSTS, Certificate, CertificateAuthority
from ottla.testing.security.tokens import AUDIENCE, ISSUER, TokenIssuer

USER: Final = "alice"
PASSWORD: Final = "alice-secret"
_VERBS: Final = "PLAINTEXT"
_PROTOCOLS: Final = {"SSL": "SSL", "MTLS": "SSL", "SASL_SSL": "SASL_SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", _VERBS: _VERBS}
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}


class SecuredBroker(Broker):
    """A broker whose clients authenticate. `users` are names with passwords; `listener` is the one that `bootstrap_servers` is of.

    The listeners: SSL (encryption alone), MTLS (certificates of clients), SASL_SSL and SASL_PLAINTEXT (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512,
    OAUTHBEARER), PLAINTEXT (open; the verbs of tests use it).

        producer = Producer(broker.client_settings("confluent-kafka", mechanism="SCRAM-SHA-512"))
    """

    def __init__(
        self, *, listener: str = "SASL_SSL", users: Mapping[str, str] | None = None, config: Mapping[str, GivenValue] | None = None
    ) -> None:
        self.authority = CertificateAuthority()
        self.issuer = TokenIssuer()
        self.users = dict(users or {USER: PASSWORD})
        self.listener = listener
        self._directory = mkdtemp(prefix="ottla-")  # nobody else can read it
        finalize(self, rmtree, self._directory, ignore_errors=True)
        self._certificates: dict[str, Certificate] = {}
        keys = Path(self._directory, "jwks.json")
        keys.write_text(self.issuer.jwks)
        own = self.authority.issue("CN=broker", hosts=HOSTS)
        jaas = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        made: dict[str, GivenValue] = {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": own.key,
            "ssl.keystore.certificate.chain": own.certificate,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.authority.certificate,
            "ssl.principal.mapping.rules": r"RULE:^.*?CN=([^,]+).*$/$1/,DEFAULT",
            "listener.name.mtls.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        for name in ("sasl_ssl", "sasl_plaintext"):
            made[f"listener.name.{name}.plain.sasl.jaas.config"] = f"{_MODULES['PLAIN']} required {jaas};"
        super().__init__(
            config={**made, **(config or {})},
            listeners=[f"{name}://127.0.0.1:0" for name in sorted(_PROTOCOLS, key=lambda name: name != listener)],
            scram_users=[
                f'{mechanism}=[name="{name}",password="{password}"]'
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
                for name, password in self.users.items()
            ],
        )

    @property
    def _verb_servers(self) -> str:
        return self.bootstrap_servers_of(_VERBS)

    def certificate(self, user: str) -> Certificate:
        """The certificate of a user for the listener MTLS; the same each time."""
        if user not in self._certificates:
            self._certificates[user] = self.authority.issue(f"CN={user},O=Ottla")
        return self._certificates[user]

    def client_settings(
        self,
        client: str,
        *,
        listener: str | None = None,
        user: str = USER,
        password: str | None = None,
        mechanism: str = "SCRAM-SHA-256",
        token: str | None = None,
        certificate: Certificate | None = None,
    ) -> dict[str, Any]:
        """The settings of a client, its bootstrap servers among them: "confluent-kafka" (and `ottla.Consumer`), "aiokafka", "kafka-python",
        "java" or "spark" (options of its Kafka source and sink).

        What is not given is right: the user's own password, a fresh token, a certificate of the authority. Java reads tokens from files
        only where its system property `org.apache.kafka.sasl.oauthbearer.allowed.urls` has their URL.
        """
        listener = listener or self.listener
        servers, protocol = self.bootstrap_servers_of(listener), _PROTOCOLS[listener]
        password = self.users.get(user, "") if password is None else password
        own = (certificate or self.certificate(user)) if listener == "MTLS" else None
        token = token or self.issuer.token(user)
        if client == "confluent-kafka":
            return {"bootstrap.servers": servers, **self._of_librdkafka(protocol, own, mechanism, user, password, token)}
        if client in ("aiokafka", "kafka-python"):
            return {"bootstrap_servers": servers, **self._of_python(client, protocol, own, mechanism, user, password, token)}
        java = {"bootstrap.servers": servers, **self._of_java(protocol, own, mechanism, user, password, token)}
        if client == "java":
            return java
        if client == "spark":
            return {f"kafka.{name}": value for name, value in java.items()}
        raise ValueError(f"no settings for {client}: write confluent-kafka, aiokafka, kafka-python, java or spark")

    def _of_librdkafka(
        self, protocol: str, own: Certificate | None, mechanism: str, user: str, password: str, token: str
    ) -> dict[str, Any]:
        settings: dict[str, Any] = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings["ssl.ca.pem"] = self.authority.certificate
        if own is not None:
            settings |= {"ssl.certificate.pem": own.certificate, "ssl.key.pem": own.key}
        if protocol.startswith("SASL"):
            settings["sasl.mechanism"] = mechanism
            if mechanism == "OAUTHBEARER":
                settings["oauth_cb"] = lambda _: (token, time.time() + 3600)
            else:
                settings |= {"sasl.username": user, "sasl.password": password}
        return settings

    def _of_python(
        self, client: str, protocol: str, own: Certificate | None, mechanism: str, user: str, password: str, token: str
    ) -> dict[str, Any]:
        settings: dict[str, Any] = {"security_protocol": protocol}
        if protocol.endswith("SSL"):
            context = settings["ssl_context"] = ssl.create_default_context(cadata=self.authority.certificate)
            if own is not None:
                path = own.write(Path(self._directory, f"{client}-{len(list(Path(self._directory).iterdir()))}.pem"))
                context.load_cert_chain(path, password="")
        if protocol.startswith("SASL"):
            settings["sasl_mechanism"] = mechanism
            if mechanism == "OAUTHBEARER":
                settings["sasl_oauth_token_provider"] = _provider(client, token)
            else:
                settings |= {"sasl_plain_username": user, "sasl_plain_password": password}
        return settings

    def _of_java(self, protocol: str, own: Certificate | None, mechanism: str, user: str, password: str, token: str) -> dict[str, str]:
        settings = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self.authority.certificate}
        if own is not None:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": own.certificate, "ssl.keystore.key": own.key}
        if protocol.startswith("SASL"):
            options = "" if mechanism == "OAUTHBEARER" else f' username="{user}" password="{password}"'
            settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{_MODULES[mechanism]} required{options};"}
            if mechanism == "OAUTHBEARER":
                file = Path(self._directory, f"token-{abs(hash(token))}")
                file.touch(0o600)
                file.write_text(token)
                settings |= {
                    "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
                    "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
                }
        return settings


def _provider(client: str, token: str) -> Any:
    """The object that a client's library asks for a token."""
    if client == "aiokafka":
        from aiokafka.abc import AbstractTokenProvider

        async def token_of_aiokafka(_self: object) -> str:
            return token

        return type("TokenProvider", (AbstractTokenProvider,), {"token": token_of_aiokafka})()
    oauth = import_module("kafka.net.sasl.oauth" if find_spec("kafka.net") else "kafka.sasl.oauth")  # since kafka-python 3, and before
    return type("TokenProvider", (oauth.AbstractTokenProvider,), {"token": lambda _self: token})()
