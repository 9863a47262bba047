"""The table of client properties, and the one reader of it: names, spellings, values, refusals, the nearest name.

A row for each property of Kafka's consumer and producer and of librdkafka's consumer that a client here knows. What a client does with a
value, and which values contradict each other, is checked where they are read. Sources: Kafka's ConsumerConfig, ProducerConfig,
CommonClientConfigs, SslConfigs and SaslConfigs (names, defaults, bounds); librdkafka's CONFIGURATION.md.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from ottla.config.client_property import (
    APPLIED,
    FLAG,
    INT,
    INT_MAX,
    LONG,
    OBJECT,
    POSITIVE,
    TEXT,
    Choice,
    Client,
    ClientProperty,
    Effect,
    Fraction,
    Kind,
    Number,
    Support,
    ignored,
    only,
    refused,
    within,
)
from ottla.text import did_you_mean

_RANGES, _CONSUMER, _PRODUCER = Client
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOOKUPS: Final = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_ISOLATION: Final = ("read_committed", "read_uncommitted")
_FROM_MINUS_ONE: Final = Number(-1, INT_MAX)

_OUT: Final = "leave it out"
_MEMBERSHIP: Final = f"it belongs to members of a consumer group, and reading by ranges of offsets needs none: {_OUT}"
_BYTES: Final = f"keys and values are handed over as the bytes they are: {_OUT}, and convert the columns"
_NO_COMMIT: Final = f"nothing is committed by reading: {_OUT}"
_JAVA: Final = f"Java classes cannot run here: {_OUT}"
_METRICS: Final = f"there are no metrics of Kafka's kind here: {_OUT}"
_NO_PROVIDERS: Final = f"write the value itself: {_OUT}"
_SHARE: Final = f"share groups are not read here: {_OUT}"
_ASKED_AGAIN: Final = "bootstrap.servers are always asked again"
_BOOTSTRAP: Final = f"{_ASKED_AGAIN}: {_OUT}"
_NOTHING_SENT: Final = "nothing is sent about the client"
_NAME_TRIED: Final = "every address of a name is tried"
_CRCS: Final = only("true", "checksums are always checked")
_SETUP: Final = "the time for connecting does not grow: set socket.connection.setup.timeout.ms"
_OF_PRODUCERS: Final = "it is a producer's"
_NO_PRODUCER: Final = ignored(_OF_PRODUCERS)
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_PARTITIONERS: Final = ("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random", "random")
_ACKS: Final = Number(-1, 1_000)
_ALL_ACKS: Final = {"all": "-1"}
_DAY_MS: Final = 86_400_000
_NO_METRICS: Final = ignored("there are no metrics of Kafka's kind")
_PARTITIONER: Final = f"records go where Kafka's own partitioner puts them, or where the column partition says: {_OUT}"
_ONE_PER_TASK: Final = "each task has an id of its own: set the option transactionalIdPrefix"
_TWO_PHASES: Final = f"each task commits its own transaction: {_OUT}"
_LEVEL: Final = f"each codec has the level that librdkafka gives it: {_OUT}"
_TOKENS: Final = f"tokens come from oauth_cb, or from sasl.oauthbearer.token.endpoint.url, and the broker checks them; {_OUT}"
_IN_JAAS: Final = "set sasl.jaas.config, which holds user and password"
_CREDENTIALS: Final = f"the client's id and secret are sent for a token (client_credentials); {_OUT}"
_OF_ASSERTIONS: Final = "it is for signed assertions instead of a client's secret"
_RETRIEVERS: Final = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File")
)
_MECHANISMS: Final = "sasl.mechanism can be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, which need none of it"


def _row(name: str, kind: Kind | None, default: Any, *supports: Support | str | None, **more: Any) -> ClientProperty:
    """A row. `supports`: what readers of ranges, consumers and producers do; a text says why they refuse it, None: they do not know it."""
    pairs = zip(Client, supports, strict=True)
    support = {client: refused(each) if isinstance(each, str) else each for client, each in pairs if each is not None}
    return ClientProperty(name, kind, default, support, **more)


def _all(name: str, kind: Kind = TEXT, default: Any = None, **more: Any) -> ClientProperty:
    return _row(name, kind, default, APPLIED, APPLIED, APPLIED, **more)


def _rows(names: str, *supports: Support | str | None) -> list[ClientProperty]:
    """Rows for `names`, between blanks, which no client applies: their values are not read."""
    return [_row(name, OBJECT, None, *supports) for name in names.split()]


def _without_effect(why: str, kinds: Mapping[str, Kind], only: str = "", of_others: str | None = None) -> list[ClientProperty]:
    """Rows of librdkafka's consumer, by their names, with the values that librdkafka allows; `of_others`: why other clients refuse them."""
    return [_row(name, kind, None, of_others, ignored(why, only), of_others) for name, kind in kinds.items()]


# fmt: off
_ROWS: Final = (
    # name, values, Kafka's default; readers of ranges, consumers, producers; spellings and other defaults
    _all("bootstrap.servers", also=("metadata.broker.list",), aiokafka=("localhost",)),
    _all("client.id", TEXT, "", defaults={_RANGES: "ottla", _CONSUMER: "ottla", _PRODUCER: "ottla-spark"}, aiokafka=("ottla",)),
    _row("request.timeout.ms", INT, 30_000, APPLIED, APPLIED, within(1, 900_000), also=("socket.timeout.ms",), aiokafka=(40_000,)),
    _row("default.api.timeout.ms", INT, 60_000, APPLIED, APPLIED, None),
    _row("retry.backoff.ms", LONG, 100, APPLIED, APPLIED, within(1, 300_000), aiokafka=(100,)),
    _row("retry.backoff.max.ms", LONG, 1_000, APPLIED, APPLIED, within(1, 300_000)),
    _row("reconnect.backoff.ms", LONG, 50, APPLIED, APPLIED, within(0, 3_600_000)),
    _row("reconnect.backoff.max.ms", LONG, 1_000, APPLIED, APPLIED, within(0, 3_600_000)),
    _row("socket.connection.setup.timeout.ms", POSITIVE, 10_000, APPLIED, APPLIED, within(1_000, INT_MAX)),
    _row("socket.connection.setup.timeout.max.ms", LONG, 30_000, _SETUP, ignored("the time for connecting does not grow"), _SETUP),
    _row("connections.max.idle.ms", Number(-1, LONG.high), 540_000, APPLIED, APPLIED, within(1, INT_MAX), librdkafka_values={"0": "-1"},
         aiokafka=(540_000,)),
    _row("metadata.max.age.ms", LONG, 300_000, APPLIED, APPLIED, within(1, 3_600_000), librdkafka="topic.metadata.refresh.interval.ms",
         librdkafka_values={"-1": str(LONG.high)}, aiokafka=(300_000,)),
    _row("metadata.max.idle.ms", LONG, 300_000, None, _NO_PRODUCER, f"every task asks for the topics that it writes to: {_OUT}"),
    _row("receive.buffer.bytes", _FROM_MINUS_ONE, 65_536, APPLIED, APPLIED, within(1, 100_000_000),
         librdkafka="socket.receive.buffer.bytes", librdkafka_values={"0": "-1"}, defaults={_RANGES: -1, _CONSUMER: -1}),
    _row("send.buffer.bytes", _FROM_MINUS_ONE, 131_072, APPLIED, APPLIED, within(1, 100_000_000),
         librdkafka="socket.send.buffer.bytes", librdkafka_values={"0": "-1"}, defaults={_RANGES: -1, _CONSUMER: -1}),
    _row("client.dns.lookup", Choice(_LOOKUPS), _LOOKUPS[0], only(_LOOKUPS[0], _NAME_TRIED), ignored(_NAME_TRIED, _LOOKUPS[0]), APPLIED),
    _row("enable.metrics.push", FLAG, True, only("false", _NOTHING_SENT), ignored(_NOTHING_SENT, "false"), APPLIED),
    _row("metadata.recovery.strategy", Choice(("none", "rebootstrap")), "rebootstrap", only("rebootstrap", _ASKED_AGAIN),
         ignored(_ASKED_AGAIN, "rebootstrap"), _BOOTSTRAP),
    _row("metadata.recovery.rebootstrap.trigger.ms", INT, 300_000, _BOOTSTRAP, ignored(_ASKED_AGAIN), _BOOTSTRAP),
    *_rows("metrics.num.samples metrics.recording.level metrics.sample.window.ms auto.include.jmx.reporter",
           _METRICS, _NO_METRICS, _METRICS),
    *_rows("metric.reporters", _METRICS, _NO_METRICS, _JAVA),
    *_rows("config.providers", _NO_PROVIDERS, _NO_PROVIDERS, _JAVA),

    # Fetching.
    _row("client.rack", TEXT, "", APPLIED, APPLIED, None, aiokafka=(None,)),
    _row("fetch.max.wait.ms", INT, 500, APPLIED, APPLIED, None, librdkafka="fetch.wait.max.ms", aiokafka=(500,)),
    _row("fetch.min.bytes", INT, 1, APPLIED, APPLIED, None, aiokafka=(1,)),
    _row("fetch.max.bytes", INT, 52_428_800, APPLIED, APPLIED, None, aiokafka=(52_428_800,)),
    # Fewer, larger responses suit reading whole ranges.
    _row("max.partition.fetch.bytes", INT, 1_048_576, APPLIED, APPLIED, None, also=("fetch.message.max.bytes",), aiokafka=(1_048_576,),
         defaults={_RANGES: 4_194_304}),
    _row("isolation.level", Choice(_ISOLATION, is_exact=True), "read_uncommitted", APPLIED,
         Support(Effect.APPLIED, kind=Choice(_ISOLATION)), None, defaults={_CONSUMER: "read_committed"}, aiokafka=("read_uncommitted",)),
    _row("check.crcs", FLAG, True, _CRCS, _CRCS, None, aiokafka=(True,)),
    _row("allow.auto.create.topics", FLAG, True, only("false", "reading never creates a topic"), APPLIED, None,
         defaults={_CONSUMER: False}),
    _row("exclude.internal.topics", FLAG, True, f"topics are read by name: {_OUT}",
         only("true", "patterns match no internal topics; subscribe to them by name"), None, aiokafka=(True,)),
    _row("key.deserializer", OBJECT, None, _BYTES, APPLIED, None),
    _row("value.deserializer", OBJECT, None, _BYTES, APPLIED, None),
    _row("interceptor.classes", OBJECT, None, _JAVA, APPLIED, _JAVA),
    *_rows("share.acknowledgement.mode share.acquire.mode", _SHARE, ignored("it is for share groups"), None),

    # Groups.
    _row("group.id", TEXT, None, _MEMBERSHIP, APPLIED, None, aiokafka=(None,)),
    _row("group.instance.id", TEXT, None, _MEMBERSHIP, APPLIED, None, aiokafka=(None,)),
    _row("group.protocol", Choice(("classic", "consumer")), "classic", _MEMBERSHIP, APPLIED, None),
    _row("group.remote.assignor", TEXT, None, _MEMBERSHIP, APPLIED, None),
    _row("session.timeout.ms", POSITIVE, 45_000, _MEMBERSHIP, APPLIED, None, aiokafka=(10_000,)),
    _row("heartbeat.interval.ms", POSITIVE, 3_000, _MEMBERSHIP, APPLIED, None, aiokafka=(3_000,)),
    _row("max.poll.interval.ms", POSITIVE, 300_000, _MEMBERSHIP, APPLIED, None, aiokafka=(300_000,)),
    _row("max.poll.records", POSITIVE, 500, "records come as whole responses, bounded by max.partition.fetch.bytes: set that instead",
         APPLIED, None, defaults={_CONSUMER: None}, aiokafka=(None,)),
    _row("partition.assignment.strategy", TEXT, "range,cooperative-sticky", _MEMBERSHIP, APPLIED, None,
         defaults={_CONSUMER: "range,roundrobin"}, aiokafka=(("roundrobin",),)),
    _row("internal.leave.group.on.close", FLAG, True, _MEMBERSHIP, only("true", "members leave on close, static ones stay"), None),
    _row("enable.auto.commit", FLAG, True, _NO_COMMIT, APPLIED, None, aiokafka=(True,)),
    _row("auto.commit.interval.ms", INT, 5_000, _NO_COMMIT, APPLIED, None, aiokafka=(5_000,)),
    _row("auto.offset.reset", TEXT, "latest", f"reading begins where the requested ranges begin: {_OUT}", APPLIED, None,
         aiokafka=("latest",)),

    # librdkafka's consumer, and confluent-kafka's.
    _row("enable.auto.offset.store", FLAG, True, None, APPLIED, None),
    _row("enable.partition.eof", FLAG, False, None, APPLIED, None),
    _row("queued.max.messages.kbytes", Number(1, 2_097_151), 65_536, None, APPLIED, None),
    _row("default.topic.config", OBJECT, None, None, APPLIED, None),
    _row("statistics.interval.ms", Number(0, 86_400_000), 0, None, APPLIED, None),
    _row("debug", TEXT, "", None, APPLIED, None),
    _row("log_level", Number(0, 7), 6, None, APPLIED, None, defaults={_CONSUMER: None}),
    _row("logger", OBJECT, None, None, APPLIED, None),
    _row("error_cb", OBJECT, None, None, APPLIED, None),
    _row("throttle_cb", OBJECT, None, None, APPLIED, None),
    _row("stats_cb", OBJECT, None, None, APPLIED, None),
    _row("on_commit", OBJECT, None, None, APPLIED, None),
    _row("oauth_cb", OBJECT, None, None, APPLIED, None),
    _row("group.protocol.type", TEXT, "consumer", None, only("consumer", "it is the type of a consumer's group"), None),
    _row("offset.store.method", TEXT, "broker", None, only("broker", "the coordinator stores offsets"), None),
    *_rows("topic.blacklist", None, "leave topics out of the subscription", None),
    *_rows("plugin.library.paths", None, f"libraries cannot be loaded here: {_OUT}", None),
    *_rows("background_event_cb closesocket_cb connect_cb consume_cb default_topic_conf dr_cb dr_msg_cb interceptors log_cb"
           " msg_order_cmp oauthbearer_token_refresh_cb offset_commit_cb opaque open_cb partitioner_cb rebalance_cb resolve_cb"
           " socket_cb ssl.certificate.verify_cb ssl_ca ssl_certificate ssl_engine_callback_data ssl_key",
           None, f"it cannot be set from Python: {_OUT}", None),
    *_rows("test.mock.num.brokers test.mock.broker.rtt", None, "there are no mock brokers: ottla.testing has brokers for tests", None),
    *_without_effect("sockets are as the operating system has them", {
        "socket.keepalive.enable": FLAG, "socket.max.fails": Number(0, 1_000_000), "socket.blocking.max.ms": Number(1, 60_000)}),
    *_without_effect("small requests are always sent at once", {"socket.nagle.disable": FLAG}, "true"),
    *_without_effect("connections are opened when there is a request", {"enable.sparse.connections": FLAG}, "true"),
    *_without_effect("every address of a name is tried at each connection", {
        "broker.address.family": Choice(("any", "v4", "v6")), "broker.address.ttl": Number(0, _DAY_MS)}),
    *_without_effect("brokers are asked what they support", {
        "api.version.request": FLAG, "api.version.request.timeout.ms": Number(1, 300_000),
        "api.version.fallback.ms": Number(0, 604_800_000), "broker.version.fallback": TEXT, "builtin.features": TEXT}),
    *_without_effect("brokers are told that this is Ottla", {"client.software.name": TEXT, "client.software.version": TEXT}),
    *_without_effect("request.timeout.ms is for all requests", {"metadata.request.timeout.ms": Number(10, 900_000)}),
    *_without_effect("the consumer has one thread and decides when to ask", {
        "consume.callback.max.messages": Number(0, 1_000_000), "coordinator.query.interval.ms": Number(1, 3_600_000),
        "enable.random.seed": FLAG, "enabled_events": INT, "fetch.error.backoff.ms": Number(0, 300_000),
        "fetch.queue.backoff.ms": Number(0, 300_000), "internal.termination.signal": Number(0, 128),
        "max.in.flight": Number(1, 1_000_000), "message.copy.max.bytes": Number(0, 1_000_000_000),
        "queued.min.messages": Number(1, 10_000_000), "receive.message.max.bytes": Number(1_000, INT_MAX),
        "reconnect.backoff.jitter.ms": Number(0, 3_600_000), "topic.metadata.propagation.max.ms": Number(0, 3_600_000),
        "topic.metadata.refresh.fast.cnt": Number(0, 1_000), "topic.metadata.refresh.fast.interval.ms": Number(1, 60_000),
        "topic.metadata.refresh.sparse": FLAG}),
    *_without_effect("the logger has the lines", {"log.connection.close": FLAG, "log.queue": FLAG, "log.thread.name": FLAG}),
    *_without_effect("offsets are neither kept in files nor committed by a legacy consumer", {
        "auto.commit.enable": FLAG, "offset.store.path": TEXT, "offset.store.sync.interval.ms": Number(-1, _DAY_MS)}),
    *_without_effect(_OF_PRODUCERS, {
        "batch.num.messages": Number(1, 1_000_000), "compression.codec": Choice((*_CODECS, "inherit")),
        "compression.level": Number(-1, 12), "delivery.report.only.error": FLAG, "enable.gapless.guarantee": FLAG,
        "message.max.bytes": Number(1_000, 1_000_000_000), "message.send.max.retries": INT, "message.timeout.ms": INT,
        "partitioner": Choice(_PARTITIONERS), "produce.offset.report": FLAG,
        "queue.buffering.backpressure.threshold": Number(1, 1_000_000), "queue.buffering.max.kbytes": POSITIVE,
        "queue.buffering.max.messages": INT, "queue.buffering.max.ms": Fraction(0, 900_000), "queuing.strategy": Choice(("fifo", "lifo")),
        "sticky.partitioning.linger.ms": Number(0, 900_000)}),
    _row("request.required.acks", _ACKS, None, None, _NO_PRODUCER, None, librdkafka_values=_ALL_ACKS),

    # Producing. Bounds: what Kafka and librdkafka both allow.
    _row("acks", Choice(("all", "-1", "0", "1")), "all", None, ignored(_OF_PRODUCERS, kind=_ACKS), APPLIED,
         librdkafka_values=_ALL_ACKS),
    _row("compression.type", Choice(_CODECS), "none", None, _NO_PRODUCER, APPLIED),
    _row("enable.idempotence", FLAG, True, None, _NO_PRODUCER, APPLIED),
    _row("linger.ms", Number(0, 900_000), 5, None, ignored(_OF_PRODUCERS, kind=Fraction(0, 900_000)), APPLIED),
    _row("batch.size", POSITIVE, 16_384, None, _NO_PRODUCER, APPLIED),
    _row("max.request.size", Number(1_000, 1_000_000_000), 1_048_576, None, None, APPLIED, librdkafka="message.max.bytes"),
    _row("buffer.memory", Number(1_024, 2**40), 33_554_432, None, None, APPLIED, librdkafka="queue.buffering.max.kbytes", unit=1_024),
    _row("delivery.timeout.ms", POSITIVE, 120_000, None, ignored(_OF_PRODUCERS, kind=INT), APPLIED),
    _row("max.block.ms", INT, 60_000, None, None, APPLIED),
    _row("max.in.flight.requests.per.connection", Number(1, 1_000_000), 5, None, _NO_PRODUCER, APPLIED),
    _row("retries", INT, INT_MAX, None, _NO_PRODUCER, APPLIED),
    *_rows("key.serializer", None, None, "keys are serialized with ByteArraySerializer"),
    *_rows("value.serializer", None, None, "values are serialized with ByteArraySerializer"),
    _row("transactional.id", TEXT, None, None, _NO_PRODUCER, _ONE_PER_TASK),
    _row("transaction.timeout.ms", Number(1_000, INT_MAX), 60_000, None, _NO_PRODUCER, APPLIED),
    *_rows("transaction.two.phase.commit.enable", None, None, _TWO_PHASES),
    *_rows("partitioner.class partitioner.ignore.keys partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms",
           None, None, _PARTITIONER),
    *_rows("compression.gzip.level compression.lz4.level compression.zstd.level", None, None, _LEVEL),

    # Security.
    _all("security.protocol", Choice(SECURITY_PROTOCOLS), "PLAINTEXT", aiokafka=("PLAINTEXT",)),
    _all("sasl.mechanism", also=("sasl.mechanisms",), aiokafka=("PLAIN",)),
    _all("sasl.jaas.config"),
    _all("sasl.login.callback.handler.class"),
    _all("sasl.oauthbearer.config"),
    _all("sasl.oauthbearer.token.endpoint.url"),
    _all("enable.sasl.oauthbearer.unsecure.jwt"),
    _all("sasl.oauthbearer.client.credentials.client.id", librdkafka="sasl.oauthbearer.client.id"),
    _all("sasl.oauthbearer.client.credentials.client.secret", librdkafka="sasl.oauthbearer.client.secret"),
    _all("sasl.oauthbearer.scope"),
    _all("sasl.oauthbearer.header.urlencode", FLAG, False),
    _all("sasl.oauthbearer.jwt.retriever.class", Choice(_RETRIEVERS, is_exact=True)),
    _all("sasl.login.connect.timeout.ms", POSITIVE, 10_000),
    _all("sasl.login.read.timeout.ms", POSITIVE, 10_000),
    _all("sasl.login.retry.backoff.ms", LONG, 100),
    _all("sasl.login.retry.backoff.max.ms", LONG, 10_000),
    _all("sasl.oauthbearer.method", Choice(("default", "oidc")), "default"),
    _all("sasl.oauthbearer.extensions"),
    _all("https.ca.location"),
    _all("https.ca.pem"),
    _row("sasl.username", TEXT, None, _IN_JAAS, APPLIED, _IN_JAAS),
    _row("sasl.password", TEXT, None, _IN_JAAS, APPLIED, _IN_JAAS),
    _all("ssl.protocol"),
    _all("ssl.enabled.protocols"),
    _all("ssl.endpoint.identification.algorithm", TEXT, "https"),
    _all("ssl.truststore.type"),
    _all("ssl.truststore.location", librdkafka="ssl.ca.location"),
    _all("ssl.truststore.certificates", librdkafka="ssl.ca.pem"),
    _all("ssl.truststore.password"),
    _all("ssl.keystore.type"),
    _all("ssl.keystore.location"),
    _all("ssl.keystore.password"),
    _all("ssl.keystore.certificate.chain", librdkafka="ssl.certificate.pem"),
    _all("ssl.keystore.key", librdkafka="ssl.key.pem"),
    _all("ssl.key.password"),
    _row("ssl.certificate.location", TEXT, None, None, APPLIED, None),
    _row("ssl.key.location", TEXT, None, None, APPLIED, None),
    _row("enable.ssl.certificate.verification", FLAG, True, None,
         only("true", "certificates are always verified: set ssl.ca.location"), None),
    _row("sasl.oauthbearer.grant.type", TEXT, "client_credentials", None, only("client_credentials", _CREDENTIALS), None),
    _row("sasl.oauthbearer.metadata.authentication.type", TEXT, "none", None, only("none", _CREDENTIALS), None),
    *_rows("ssl.crl.location ssl.curves.list ssl.engine.location ssl.providers ssl.sigalgs.list",
           None, f"connections have the limits of Python's ssl module: {_OUT}", None),
    *_rows("sasl.kerberos.keytab sasl.kerberos.principal", None, _MECHANISMS, None),
    *_rows("ssl.ca.certificate.stores", None, ignored("it is Windows'"), None),
    *_rows("ssl.engine.id", None, ignored("it is for ssl.engine.location"), None),
    *_without_effect(_OF_ASSERTIONS, {
        "sasl.oauthbearer.assertion.jwt.template.file": TEXT, "sasl.oauthbearer.assertion.private.key.pem": TEXT}),
    *_rows("security.providers ssl.cipher.suites ssl.provider ssl.keymanager.algorithm ssl.trustmanager.algorithm"
           " ssl.secure.random.implementation ssl.engine.factory.class", _OUT, _OUT, _OUT),
    *_rows("sasl.client.callback.handler.class sasl.login.class"
           " sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor"
           " sasl.login.refresh.window.jitter sasl.kerberos.kinit.cmd"
           " sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter"
           " sasl.kerberos.ticket.renew.window.factor", _MECHANISMS, _MECHANISMS, _MECHANISMS),
    *_rows("sasl.oauthbearer.assertion.template.file sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience"
           " sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms"
           " sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
           " sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.validator.class"
           " sasl.oauthbearer.scope.claim.name", _TOKENS, _TOKENS, _TOKENS),
    *_without_effect(_OF_ASSERTIONS, {
        "sasl.oauthbearer.assertion.algorithm": Choice(("RS256", "ES256")), "sasl.oauthbearer.assertion.claim.aud": TEXT,
        "sasl.oauthbearer.assertion.claim.exp.seconds": POSITIVE, "sasl.oauthbearer.assertion.claim.iss": TEXT,
        "sasl.oauthbearer.assertion.claim.jti.include": FLAG, "sasl.oauthbearer.assertion.claim.nbf.seconds": INT,
        "sasl.oauthbearer.assertion.claim.sub": TEXT, "sasl.oauthbearer.assertion.file": TEXT,
        "sasl.oauthbearer.assertion.private.key.file": TEXT, "sasl.oauthbearer.assertion.private.key.passphrase": TEXT,
        }, of_others=_TOKENS),
    *_without_effect("the token is the broker's to check", {"sasl.oauthbearer.sub.claim.name": TEXT}, of_others=_TOKENS),
)
# fmt: on

PROPERTIES: Final[Mapping[str, ClientProperty]] = {row.name: row for row in _ROWS}
"""Every row by its name."""
_SPELLINGS: Final[Mapping[str, str]] = {
    name: row.name for row in _ROWS if _CONSUMER in row.support for name in (row.librdkafka, *row.also) if name
}
"""A consumer's properties by librdkafka's names."""


def property_names(client: Client, *effects: Effect) -> frozenset[str]:
    """The rows that `client` knows, or those on which it has one of `effects`."""
    return frozenset(row.name for row in _ROWS if client in row.support and (not effects or row.support[client].effect in effects))


def is_security(name: str) -> bool:
    """Whether a property says how a client authenticates and encrypts, or is spelled as if."""
    return name.startswith(("ssl.", "sasl.", "security.", "enable.sasl.", "https."))


_TAKEN: Final = (Effect.APPLIED, Effect.FIXED)
OWN: Final = frozenset(
    name
    for name in property_names(_CONSUMER, *_TAKEN) - property_names(_RANGES, *_TAKEN)
    if PROPERTIES[name].kind is not OBJECT and not is_security(name)
)
"""What a file or an option may say of a consumer alone; all else that it applies is for connections and fetches, or no text."""


class ProblemKind(Enum):
    """Why a property cannot be taken."""

    UNKNOWN = auto()
    REFUSED = auto()
    VALUE = auto()


class Problem(NamedTuple):
    """A property that cannot be taken. `predicate` is the rest of the sentence that begins with the name as it was given."""

    name: str
    predicate: str
    kind: ProblemKind

    def __str__(self) -> str:
        return f"{self.name} {self.predicate}"


class PropertyError(ValueError):
    """Properties that cannot be taken, each with a line of the message."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def default_values(client: Client) -> dict[str, Any]:
    """What `client` uses where nothing is given, by the rows' names; properties without a default are left out."""
    values = {name: PROPERTIES[name].default_of(client) for name in property_names(client, Effect.APPLIED)}
    return {name: value for name, value in values.items() if value is not None}


def read_properties(properties: Mapping[str, Any], client: Client) -> dict[str, Any]:
    """The values to apply, by the rows' names; None stands for what is not given.

    A consumer's properties may have librdkafka's names, which come before Kafka's where both are given: request.timeout.ms may then be a
    producer's there, and metadata.max.age.ms the age of a cache. Raises PropertyError.
    """
    spellings = _SPELLINGS if client is Client.CONSUMER else {}
    values: dict[str, Any] = {}
    problems = []
    for name, value in sorted(properties.items(), key=lambda given: given[0] in spellings):
        if value is None:
            continue
        row = PROPERTIES.get(spellings.get(name, name))
        support = None if row is None else row.support.get(client)
        if row is None or support is None:
            what = "producer" if client is Client.PRODUCER else "consumer"
            meant = did_you_mean(name, property_names(client) | spellings.keys())
            problems.append(Problem(name, f"is no property of a Kafka {what}{meant}", ProblemKind.UNKNOWN))
        elif support.effect is Effect.REFUSED:
            problems.append(Problem(name, f"is not supported: {support.why}", ProblemKind.REFUSED))
        else:
            try:
                parsed = row.parse(value, client)
            except ValueError as error:
                problems.append(Problem(name, str(error), ProblemKind.VALUE))
            else:
                if support.effect is Effect.APPLIED:
                    values[row.name] = parsed
    if problems:
        raise PropertyError(problems)
    return values


def warning_of(properties: Mapping[str, Any], client: Client) -> str:
    """A line that names what is given and has no effect, with the reasons; "" where there is nothing of the kind."""
    names: dict[str, list[str]] = {}
    for name, value in properties.items():
        row = PROPERTIES.get(name)
        support = None if row is None else row.support.get(client)
        if row is None or support is None or support.effect is not Effect.IGNORED or value is None:
            continue
        if not row.is_default(value, client):
            names.setdefault(support.why, []).append(name)
    return "; ".join(f"{', '.join(each)} ({why})" for why, each in names.items())
