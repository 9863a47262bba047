"""All settings that Apache Kafka 4.3 describes: those that this broker acts on (broker_settings.py, topic_settings.py,
group_settings.py), and the others.

The tables here have the others, one a line: name, type, default, and "dynamic" where Kafka changes it while a broker runs; "-" is no value,
two quotes are an empty one. They are described, and refused where they are given; tests compare the tables with Apache Kafka.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from ottla.config.broker_settings import BROKER_SETTINGS, DYNAMIC_BROKER_SETTINGS, OTHER_UNITS
from ottla.config.group_settings import GROUP_SETTINGS
from ottla.config.security_settings import DYNAMIC_IN_KAFKA, NULL_IN_KAFKA
from ottla.config.setting import ConfigType, Setting
from ottla.config.topic_settings import TOPIC_SETTINGS

FIXED_VALUES: Final[Mapping[str, str]] = {
    "auto.leader.rebalance.enable": "false",
    "process.roles": "broker,controller",
    "socket.listen.backlog.size": "1024",
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "-1",
}
"""What this broker does where that is not Kafka's default; described as if given at start."""

_BROKER = """
add.partitions.to.txn.retry.backoff.max.ms int 100
add.partitions.to.txn.retry.backoff.ms int 20
alter.config.policy.class.name class -
alter.log.dirs.replication.quota.window.num int 11
alter.log.dirs.replication.quota.window.size.seconds int 1
auto.leader.rebalance.enable boolean true
background.threads int 10 dynamic
broker.heartbeat.interval.ms int 2000
broker.id int -1
broker.rack string -
broker.session.timeout.ms int 9000
client.quota.callback.class class -
config.providers list "" dynamic
controlled.shutdown.enable boolean true
controller.listener.names list -
controller.quorum.append.linger.ms int 25
controller.quorum.auto.join.enable boolean false
controller.quorum.bootstrap.servers list ""
controller.quorum.election.backoff.max.ms int 1000
controller.quorum.election.timeout.ms int 1000
controller.quorum.fetch.max.bytes int 1048576
controller.quorum.fetch.snapshot.max.bytes int 1048576
controller.quorum.fetch.timeout.ms int 2000
controller.quorum.request.timeout.ms int 2000
controller.quorum.retry.backoff.ms int 20
controller.quorum.voters list ""
controller.socket.timeout.ms int 30000
cordoned.log.dirs list "" dynamic
create.topic.policy.class.name class -
delegation.token.expiry.check.interval.ms long 3600000
delegation.token.expiry.time.ms long 86400000
delegation.token.max.lifetime.ms long 604800000
delegation.token.secret.key password -
delete.records.purgatory.purge.interval.requests int 1
early.start.listeners list -
fetch.purgatory.purge.interval.requests int 1000
follower.fetch.last.tiered.offset.enable boolean false dynamic
group.share.assignment.interval.ms int 1000 dynamic
group.share.assignors list simple
group.share.delivery.count.limit int 5
group.share.heartbeat.interval.ms int 5000
group.share.max.assignment.interval.ms int 15000
group.share.max.delivery.count.limit int 10
group.share.max.heartbeat.interval.ms int 15000
group.share.max.partition.max.record.locks int 4000
group.share.max.record.lock.duration.ms int 60000
group.share.max.session.timeout.ms int 60000
group.share.max.share.sessions int 2000
group.share.max.size int 200
group.share.min.assignment.interval.ms int 0
group.share.min.delivery.count.limit int 2
group.share.min.heartbeat.interval.ms int 5000
group.share.min.partition.max.record.locks int 100
group.share.min.record.lock.duration.ms int 15000
group.share.min.session.timeout.ms int 45000
group.share.partition.max.record.locks int 2000
group.share.record.lock.duration.ms int 30000
group.share.session.timeout.ms int 45000
group.streams.assignment.interval.ms int 1000 dynamic
group.streams.heartbeat.interval.ms int 5000
group.streams.initial.rebalance.delay.ms int 3000
group.streams.max.assignment.interval.ms int 15000
group.streams.max.heartbeat.interval.ms int 15000
group.streams.max.session.timeout.ms int 60000
group.streams.max.size int 2147483647
group.streams.max.standby.replicas int 2
group.streams.min.assignment.interval.ms int 0
group.streams.min.heartbeat.interval.ms int 5000
group.streams.min.session.timeout.ms int 45000
group.streams.num.standby.replicas int 0
group.streams.session.timeout.ms int 45000
initial.broker.registration.timeout.ms int 60000
kafka.metrics.polling.interval.secs int 10
kafka.metrics.reporters list ""
leader.imbalance.check.interval.seconds long 300
log.dir list /tmp/kafka-logs
log.dir.failure.timeout.ms long 30000
log.dirs list -
log.local.retention.bytes long -2 dynamic
log.local.retention.ms long -2 dynamic
max.connection.creation.rate int 2147483647 dynamic
max.request.partition.size.limit int 2000
metadata.log.dir string -
metadata.log.max.record.bytes.between.snapshots long 20971520
metadata.log.max.snapshot.interval.ms long 3600000
metadata.log.segment.bytes int 1073741824
metadata.log.segment.ms long 604800000
metadata.max.idle.interval.ms int 500
metadata.max.retention.bytes long 104857600
metadata.max.retention.ms long 604800000
metric.reporters list org.apache.kafka.common.metrics.JmxReporter dynamic
metrics.num.samples int 2
metrics.recording.level string INFO
metrics.sample.window.ms long 30000
num.io.threads int 8 dynamic
num.network.threads int 3 dynamic
num.replica.alter.log.dirs.threads int -
num.replica.fetchers int 1 dynamic
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic
process.roles list -
producer.purgatory.purge.interval.requests int 1000
queued.max.requests int 500
remote.fetch.max.wait.ms int 500 dynamic
remote.list.offsets.request.timeout.ms long 30000 dynamic
remote.log.index.file.cache.total.size.bytes long 1073741824 dynamic
remote.log.manager.copier.thread.pool.size int 10 dynamic
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 dynamic
remote.log.manager.copy.quota.window.num int 11
remote.log.manager.copy.quota.window.size.seconds int 1
remote.log.manager.expiration.thread.pool.size int 10 dynamic
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 dynamic
remote.log.manager.fetch.quota.window.num int 11
remote.log.manager.fetch.quota.window.size.seconds int 1
remote.log.manager.follower.thread.pool.size int 2 dynamic
remote.log.manager.task.interval.ms long 30000
remote.log.manager.thread.pool.size int 2
remote.log.metadata.custom.metadata.max.bytes int 128
remote.log.metadata.manager.class.name string org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string -
remote.log.metadata.manager.impl.prefix string rlmm.config.
remote.log.metadata.manager.listener.name string -
remote.log.reader.max.pending.tasks int 100
remote.log.reader.threads int 10 dynamic
remote.log.storage.manager.class.name string -
remote.log.storage.manager.class.path string -
remote.log.storage.manager.impl.prefix string rsm.config.
remote.log.storage.system.enable boolean false
replica.fetch.backoff.ms int 1000
replica.fetch.max.bytes int 1048576
replica.fetch.min.bytes int 1
replica.fetch.response.max.bytes int 10485760
replica.fetch.wait.max.ms int 500
replica.high.watermark.checkpoint.interval.ms long 5000
replica.lag.time.max.ms long 30000
replica.selector.class string -
replica.socket.receive.buffer.bytes int 65536
replica.socket.timeout.ms int 30000
replication.quota.window.num int 11
replication.quota.window.size.seconds int 1
request.timeout.ms int 30000
sasl.client.callback.handler.class class -
sasl.kerberos.kinit.cmd string /usr/bin/kinit dynamic
sasl.kerberos.min.time.before.relogin long 60000 dynamic
sasl.kerberos.principal.to.local.rules list DEFAULT dynamic
sasl.kerberos.service.name string - dynamic
sasl.kerberos.ticket.renew.jitter double 0.05 dynamic
sasl.kerberos.ticket.renew.window.factor double 0.8 dynamic
sasl.login.callback.handler.class class -
sasl.login.class class -
sasl.login.connect.timeout.ms int -
sasl.login.read.timeout.ms int -
sasl.login.refresh.buffer.seconds short 300 dynamic
sasl.login.refresh.min.period.seconds short 60 dynamic
sasl.login.refresh.window.factor double 0.8 dynamic
sasl.login.refresh.window.jitter double 0.05 dynamic
sasl.login.retry.backoff.max.ms long 10000
sasl.login.retry.backoff.ms long 100
sasl.mechanism.controller.protocol string GSSAPI
sasl.mechanism.inter.broker.protocol string GSSAPI dynamic
sasl.oauthbearer.assertion.algorithm string RS256
sasl.oauthbearer.assertion.claim.aud string -
sasl.oauthbearer.assertion.claim.exp.seconds int 300
sasl.oauthbearer.assertion.claim.iss string -
sasl.oauthbearer.assertion.claim.jti.include boolean false
sasl.oauthbearer.assertion.claim.nbf.seconds int 60
sasl.oauthbearer.assertion.claim.sub string -
sasl.oauthbearer.assertion.file string -
sasl.oauthbearer.assertion.private.key.file string -
sasl.oauthbearer.assertion.private.key.passphrase password -
sasl.oauthbearer.assertion.template.file string -
sasl.oauthbearer.client.credentials.client.id string -
sasl.oauthbearer.client.credentials.client.secret password -
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
sasl.oauthbearer.jwt.retriever.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string -
sasl.oauthbearer.token.endpoint.url string -
security.inter.broker.protocol string PLAINTEXT
security.providers string -
share.coordinator.append.linger.ms int -1
share.coordinator.cached.buffer.max.bytes int 1048588 dynamic
share.coordinator.load.buffer.size int 5242880
share.coordinator.snapshot.update.records.per.snapshot int 500
share.coordinator.state.topic.compression.codec int 0
share.coordinator.state.topic.min.isr short 2
share.coordinator.state.topic.num.partitions int 50
share.coordinator.state.topic.replication.factor short 3
share.coordinator.state.topic.segment.bytes int 104857600
share.coordinator.threads int 1
share.coordinator.write.timeout.ms int 5000
share.fetch.purgatory.purge.interval.requests int 1000
socket.connection.setup.timeout.max.ms long 30000
socket.connection.setup.timeout.ms long 10000
socket.listen.backlog.size int 50
socket.receive.buffer.bytes int 102400
socket.send.buffer.bytes int 102400
ssl.allow.dn.changes boolean false
ssl.allow.san.changes boolean false
ssl.cipher.suites list "" dynamic
ssl.endpoint.identification.algorithm string https dynamic
ssl.engine.factory.class class - dynamic
ssl.keymanager.algorithm string SunX509 dynamic
ssl.protocol string TLSv1.3 dynamic
ssl.provider string - dynamic
ssl.secure.random.implementation string - dynamic
ssl.trustmanager.algorithm string PKIX dynamic
telemetry.max.bytes int 1048576
transaction.partition.verification.enable boolean true dynamic
transaction.state.log.load.buffer.size int 5242880
transaction.two.phase.commit.enable boolean false
"""
_TOPIC = """
follower.replication.throttled.replicas list "" dynamic
leader.replication.throttled.replicas list "" dynamic
local.retention.bytes long -2 dynamic
local.retention.ms long -2 dynamic
remote.log.copy.disable boolean false dynamic
remote.log.delete.on.disable boolean false dynamic
remote.storage.enable boolean false dynamic
"""
_GROUP = """
share.assignment.interval.ms int 1000 dynamic
share.auto.offset.reset string latest dynamic
share.delivery.count.limit int 5 dynamic
share.heartbeat.interval.ms int 5000 dynamic
share.isolation.level string read_uncommitted dynamic
share.partition.max.record.locks int 2000 dynamic
share.record.lock.duration.ms int 30000 dynamic
share.renew.acknowledge.enable boolean true dynamic
share.session.timeout.ms int 45000 dynamic
streams.assignment.interval.ms int 1000 dynamic
streams.heartbeat.interval.ms int 5000 dynamic
streams.initial.rebalance.delay.ms int 3000 dynamic
streams.num.standby.replicas int 0 dynamic
streams.session.timeout.ms int 45000 dynamic
"""
_BROKER_NAMES: Final = frozenset(line.split()[0] for line in _BROKER.strip().splitlines())


class KafkaSetting(NamedTuple):
    """One of Kafka's settings, as it is described. A `default` of None is Kafka's null.

    `broker_name` is the broker's setting that gives a topic's or group's its default.
    The dynamic settings may change while the broker runs.
    """

    name: str
    type: ConfigType
    default: str | None
    is_dynamic: bool
    doc: str = "A setting of Apache Kafka that this broker does not act on."
    broker_name: str | None = None


def _unserved(table: str) -> Iterator[KafkaSetting]:
    for line in table.strip().splitlines():
        name, kind, default, *dynamic = line.split()
        yield KafkaSetting(
            name,
            ConfigType[kind.upper()],
            {"-": None, '""': ""}.get(default, default),
            is_dynamic=bool(dynamic),
            broker_name=next((other for other in (f"log.{name}", f"group.{name}") if other in _BROKER_NAMES), None),
        )


_KAFKA_DEFAULTS: Final = {"listeners": "PLAINTEXT://:9092"}
"""Described as Kafka does; here the address is that of --listen."""
_DYNAMIC_IN_KAFKA: Final = ("listeners", "listener.security.protocol.map")
"""Described as Kafka does, though a change is refused here."""


def _served(settings: Mapping[str, Setting], dynamic: Container[str]) -> Iterator[KafkaSetting]:
    for each in settings.values():
        if not each.is_internal:
            # Kafka keeps the default of a time in the setting of another unit, and has none for these; another empty text is a value.
            has_none = each.name in ("node.id", "inter.broker.listener.name") or each.name in NULL_IN_KAFKA
            is_text = each.type is ConfigType.STRING or each.name == "sasl.oauthbearer.expected.audience"
            is_null = each.name in OTHER_UNITS or has_none or (not each.default and not is_text)
            default = _KAFKA_DEFAULTS.get(each.name, None if is_null else each.default)
            is_dynamic = each.name in dynamic or each.name in _DYNAMIC_IN_KAFKA or each.name in DYNAMIC_IN_KAFKA
            yield KafkaSetting(each.name, each.type, default, is_dynamic, each.doc, each.broker_name)


def _by_name(*tables: Iterable[KafkaSetting]) -> Mapping[str, KafkaSetting]:
    return {each.name: each for each in sorted(chain(*tables))}


KAFKA_BROKER_SETTINGS: Final = _by_name(_served(BROKER_SETTINGS, DYNAMIC_BROKER_SETTINGS), _unserved(_BROKER))
KAFKA_TOPIC_SETTINGS: Final = _by_name(_served(TOPIC_SETTINGS, TOPIC_SETTINGS), _unserved(_TOPIC))
KAFKA_GROUP_SETTINGS: Final = _by_name(_served(GROUP_SETTINGS, GROUP_SETTINGS), _unserved(_GROUP))
"""All settings that Apache Kafka describes, by name: those that this broker acts on, and the others."""
