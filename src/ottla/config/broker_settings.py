"""The settings of the broker: Kafka's names, types, defaults and bounds; those of topics are among them, each by its broker's name."""

from collections.abc import Mapping

from ottla.config.security_settings import SECURITY_SETTINGS
from ottla.config.setting import INT_MAX, LONG_MAX, ConfigType, Setting, flag_setting, number_setting
from ottla.config.topic_settings import TOPIC_SETTINGS

_LOAD_FACTOR_MIN = 0.0001
"""Kafka has no bound. Of the smallest table, 1 MiB, this share is four keys; with room for no key a cleaning would never end."""

PARTITIONS_PER_TOPIC_MAX = 10_000
"""A request for more is a mistake or an attack: refused with INVALID_PARTITIONS."""
_PARTITIONS_BOUND = ", the most partitions that a topic may have here"

CONSUMER_ASSIGNORS = ("uniform", "range")
"""The assignors of consumer groups, the default first."""

_OWN_BROKER_SETTINGS = (
    number_setting(ConfigType.INT, "node.id", 1, "The broker's number in the cluster.", 0),
    Setting(
        name="listeners",
        type=ConfigType.LIST,
        default="",
        doc="Where the broker accepts connections: NAME://HOST:PORT, comma-separated; instead of --listen (`ottla docs brokers`).",
    ),
    Setting(
        name="advertised.listeners",
        type=ConfigType.LIST,
        default="",
        doc="Where clients of a listener find the broker: NAME://HOST:PORT, comma-separated; by default, the listeners' own addresses.",
    ),
    Setting(
        name="listener.security.protocol.map",
        type=ConfigType.STRING,
        default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        doc="The security protocol of each listener name: NAME:PROTOCOL, comma-separated; PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    ),
    Setting(
        name="inter.broker.listener.name",
        type=ConfigType.STRING,
        default="",
        doc="The listener that brokers would use between them; it is validated and shown only, as the brokers share a process.",
    ),
    Setting(
        name="authorizer.class.name",
        type=ConfigType.STRING,
        default="",
        doc="org.apache.kafka.metadata.authorizer.StandardAuthorizer: ACLs decide what clients may do; empty: they may do everything.",
    ),
    Setting(
        name="super.users",
        type=ConfigType.STRING,
        default="",
        doc="The principals that may do everything, whatever the ACLs say: User:alice;User:bob, separated by semicolons.",
        is_internal=True,
    ),
    Setting(
        name="allow.everyone.if.no.acl.found",
        type=ConfigType.BOOLEAN,
        default="false",
        doc="Whether everything is allowed on a resource that no ACL is about.",
        is_internal=True,
    ),
    number_setting(ConfigType.INT, "quota.window.num", 11, "How many samples client quotas are measured in.", 1),
    number_setting(ConfigType.INT, "quota.window.size.seconds", 1, "How long each sample of client quotas is, in seconds.", 1),
    number_setting(ConfigType.INT, "controller.quota.window.num", 11, "The same of controller_mutation_rate: how many samples.", 1),
    number_setting(ConfigType.INT, "controller.quota.window.size.seconds", 1, "The same: how long each sample is, in seconds.", 1),
    flag_setting("auto.create.topics.enable", True, "Whether a topic is created when a client first requests it."),
    number_setting(
        ConfigType.INT,
        "num.partitions",
        1,
        "Partitions of a topic that is created without a count.",
        1,
        high=PARTITIONS_PER_TOPIC_MAX,
        because=_PARTITIONS_BOUND,
    ),
    number_setting(
        ConfigType.INT,
        "default.replication.factor",
        1,
        "Replicas of a topic that is created without a factor, at most one per broker.",
        1,
        because=": a topic has at least one",
    ),
    flag_setting("delete.topic.enable", True, "Whether topics may be deleted."),
    number_setting(ConfigType.INT, "fetch.max.bytes", 57671680, "Most bytes in one response to Fetch.", 1024),
    number_setting(ConfigType.INT, "socket.request.max.bytes", 104857600, "Largest request that is read, in bytes.", 1),
    number_setting(ConfigType.INT, "max.connections", INT_MAX, "Most connections at one time; the next one is closed.", 0),
    number_setting(ConfigType.INT, "max.connections.per.ip", INT_MAX, "Most connections from one address; the next one is closed.", 0),
    Setting(
        name="max.connections.per.ip.overrides",
        type=ConfigType.STRING,
        default="",
        doc="Other bounds for some addresses: host:connections, comma-separated, for example 127.0.0.1:200.",
    ),
    number_setting(
        ConfigType.LONG,
        "connections.max.idle.ms",
        600000,
        "A connection that is idle for so long is closed, unless one of its requests is in progress, in ms; negative: never.",
    ),
    number_setting(
        ConfigType.LONG,
        "queued.max.request.bytes",
        -1,
        "Bytes of requests, of all connections together, above which the broker stops reading; -1 is 67108864 here (`ottla docs memory`).",
    ),
    number_setting(ConfigType.INT, "group.min.session.timeout.ms", 6000, "Shortest session timeout that a member may ask for, in ms."),
    number_setting(ConfigType.INT, "group.max.session.timeout.ms", 1800000, "Longest session timeout that a member may ask for, in ms."),
    number_setting(
        ConfigType.INT, "group.initial.rebalance.delay.ms", 0, "How long a new group waits for more members, in ms (Apache Kafka: 3000)."
    ),
    number_setting(ConfigType.INT, "group.max.size", INT_MAX, "Most members of one group.", 1),
    Setting(
        name="group.coordinator.rebalance.protocols",
        type=ConfigType.LIST,
        default="classic,consumer",
        doc="The group protocols that are served; classic must be one of them (Apache Kafka: also streams).",
        choices=("classic", "consumer"),
    ),
    number_setting(
        ConfigType.INT, "group.consumer.session.timeout.ms", 45000, "How long a member of a consumer group may be silent, in ms.", 1
    ),
    number_setting(ConfigType.INT, "group.consumer.min.session.timeout.ms", 45000, "The least group.consumer.session.timeout.ms.", 1),
    number_setting(ConfigType.INT, "group.consumer.max.session.timeout.ms", 60000, "The greatest group.consumer.session.timeout.ms.", 1),
    number_setting(
        ConfigType.INT,
        "group.consumer.heartbeat.interval.ms",
        5000,
        "How often members of consumer groups send heartbeats, in ms: the coordinator says so to them.",
        1,
    ),
    number_setting(ConfigType.INT, "group.consumer.min.heartbeat.interval.ms", 5000, "The least group.consumer.heartbeat.interval.ms.", 1),
    number_setting(
        ConfigType.INT, "group.consumer.max.heartbeat.interval.ms", 15000, "The greatest group.consumer.heartbeat.interval.ms.", 1
    ),
    number_setting(
        ConfigType.INT,
        "group.consumer.assignment.interval.ms",
        1000,
        "The least time between two target assignments of a consumer group, in ms.",
        0,
    ),
    number_setting(ConfigType.INT, "group.consumer.min.assignment.interval.ms", 0, "The least group.consumer.assignment.interval.ms.", 0),
    number_setting(
        ConfigType.INT, "group.consumer.max.assignment.interval.ms", 15000, "The greatest group.consumer.assignment.interval.ms.", 0
    ),
    number_setting(ConfigType.INT, "group.consumer.max.size", INT_MAX, "Most members of one consumer group.", 1),
    Setting(
        name="group.consumer.migration.policy",
        type=ConfigType.STRING,
        default="bidirectional",
        doc="Which groups with members may change their type: to consumer groups (upgrade), to classic ones (downgrade).",
        choices=("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        ignores_case=True,
    ),
    Setting(
        name="group.consumer.assignors",
        type=ConfigType.LIST,
        default=",".join(CONSUMER_ASSIGNORS),
        doc="The assignors of consumer groups, the default first: uniform, range, or module:Class of your own.",
    ),
    number_setting(
        ConfigType.INT,
        "group.consumer.regex.refresh.interval.ms",
        600000,
        "How often the topics of regular expressions are looked up again, at the least, in ms.",
        10000,
        is_internal=True,
    ),
    number_setting(ConfigType.INT, "offset.metadata.max.bytes", 4096, "Longest metadata string of a committed offset."),
    number_setting(
        ConfigType.INT,
        "offsets.retention.minutes",
        10080,
        "How long the offsets of a group without members are kept, in minutes.",
        1,
    ),
    number_setting(
        ConfigType.LONG, "offsets.retention.check.interval.ms", 600000, "Time between two checks for expired offsets, in ms.", 1
    ),
    number_setting(
        ConfigType.INT,
        "offsets.topic.compression.codec",
        0,
        "Codec of the batches that coordinators write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        0,
        high=4,
    ),
    number_setting(
        ConfigType.INT,
        "offsets.commit.timeout.ms",
        5000,
        "How long a commit may wait for replicas, in ms. No effect: there are none.",
        1,
    ),
    number_setting(
        ConfigType.INT,
        "offsets.load.buffer.size",
        5242880,
        "How much of __consumer_offsets is read at a time when a coordinator loads, in bytes. No effect.",
        1,
    ),
    number_setting(
        ConfigType.INT, "group.coordinator.threads", 4, "Threads of coordinators. No effect: they share the broker's thread.", 1
    ),
    number_setting(
        ConfigType.INT,
        "group.coordinator.background.threads",
        2,
        "Threads for background work. No effect: there is no such work.",
        1,
    ),
    number_setting(
        ConfigType.INT,
        "group.coordinator.append.linger.ms",
        -1,
        "How long a coordinator collects records before it writes. No effect: always -1, records that arrive together.",
        -1,
    ),
    number_setting(
        ConfigType.INT,
        "group.coordinator.cached.buffer.max.bytes",
        1048588,
        "Largest write buffer that a coordinator keeps, in bytes. No effect: none is kept.",
        524288,
    ),
    number_setting(
        ConfigType.INT,
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets when it is created.",
        1,
        high=PARTITIONS_PER_TOPIC_MAX,
        because=_PARTITIONS_BOUND,
    ),
    number_setting(ConfigType.SHORT, "offsets.topic.replication.factor", 3, "Replicas of __consumer_offsets, at most one per broker.", 1),
    number_setting(
        ConfigType.INT,
        "offsets.topic.segment.bytes",
        104857600,
        "Size at which a new segment of __consumer_offsets begins, in bytes.",
        1048576,
        because=", as the topic's segment.bytes must be",
    ),
    number_setting(
        ConfigType.INT,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10000,
        "Time between two checks for transactions that are open for longer than their timeout, in ms.",
        1,
    ),
    number_setting(ConfigType.INT, "transaction.max.timeout.ms", 900000, "Longest transaction.timeout.ms of a producer, in ms.", 1),
    number_setting(
        ConfigType.INT,
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3600000,
        "Time between two checks for expired transactional ids, in ms.",
        1,
    ),
    number_setting(
        ConfigType.INT,
        "transaction.state.log.min.isr",
        2,
        "min.insync.replicas of __transaction_state when it is created, at most its replicas.",
        1,
    ),
    number_setting(
        ConfigType.INT,
        "transaction.state.log.num.partitions",
        50,
        "Partitions of __transaction_state when it is created.",
        1,
        high=PARTITIONS_PER_TOPIC_MAX,
        because=_PARTITIONS_BOUND,
    ),
    number_setting(
        ConfigType.SHORT, "transaction.state.log.replication.factor", 3, "Replicas of __transaction_state, at most one per broker.", 1
    ),
    number_setting(
        ConfigType.INT,
        "transaction.state.log.segment.bytes",
        104857600,
        "Size at which a new segment of __transaction_state begins, in bytes.",
        1048576,
        because=", as the topic's segment.bytes must be",
    ),
    number_setting(
        ConfigType.INT, "transactional.id.expiration.ms", 604800000, "How long a transactional id without use is known, in ms.", 1
    ),
    flag_setting("log.cleaner.enable", True, "Whether compacted topics are cleaned; without it __consumer_offsets grows without bound."),
    number_setting(
        ConfigType.INT, "log.cleaner.threads", 1, "Number of cleaner threads.", 1, because="; log.cleaner.enable=false disables cleaning"
    ),
    number_setting(
        ConfigType.LONG, "log.cleaner.dedupe.buffer.size", 134217728, "Memory for the cleaner's tables of keys, of all threads, in bytes."
    ),
    number_setting(
        ConfigType.INT, "log.cleaner.io.buffer.size", 524288, "Memory for the cleaner's reading and writing, of all threads, in bytes.", 0
    ),
    number_setting(
        ConfigType.DOUBLE,
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "Maximum load of a cleaner's table of keys, as a share of it.",
        _LOAD_FACTOR_MIN,
        high=1,
        because=", so that the smallest table holds some keys and none is overfull",
    ),
    number_setting(
        ConfigType.DOUBLE,
        "log.cleaner.io.max.bytes.per.second",
        "1.7976931348623157E308",
        "Most bytes per second that cleaning reads and writes.",
        1,
        because=", or cleaning would not end",
    ),
    number_setting(ConfigType.LONG, "log.cleaner.backoff.ms", 15000, "How long a cleaner waits when there is nothing to clean, in ms.", 0),
    number_setting(ConfigType.INT, "log.retention.hours", 168, "As log.retention.ms, in hours; used when neither ms nor minutes are set."),
    number_setting(ConfigType.INT, "log.retention.minutes", None, "As log.retention.ms, in minutes; used when that is not set."),
    number_setting(
        ConfigType.LONG, "log.retention.check.interval.ms", 300000, "Time between two checks for segments that retention deletes, in ms.", 1
    ),
    number_setting(ConfigType.INT, "log.roll.hours", 168, "As log.roll.ms, in hours; used when that is not set.", 1),
    number_setting(ConfigType.INT, "log.roll.jitter.hours", 0, "As log.roll.jitter.ms, in hours; used when that is not set.", 0),
    number_setting(
        ConfigType.LONG,
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        "Default of log.flush.interval.ms, in ms. Logs are not checked at intervals: each is synced when its flush.ms is over.",
    ),
    number_setting(
        ConfigType.INT, "log.flush.offset.checkpoint.interval.ms", 60000, "Time between two writes of the recovery points, in ms.", 0
    ),
    number_setting(
        ConfigType.INT,
        "log.flush.start.offset.checkpoint.interval.ms",
        60000,
        "Time between two writes of log start offsets, in ms.",
        0,
    ),
    number_setting(
        ConfigType.LONG, "log.initial.task.delay.ms", 30000, "Time from the start to the first periodic work, in ms.", 0, is_internal=True
    ),
    number_setting(
        ConfigType.INT,
        "num.recovery.threads.per.data.dir",
        2,
        "Threads that recover logs at a start after a crash, and sync them at a stop.",
        1,
    ),
    number_setting(
        ConfigType.INT, "producer.id.expiration.ms", 86400000, "How long an idempotent producer is known after its last write, in ms.", 1
    ),
    number_setting(
        ConfigType.INT,
        "producer.id.expiration.check.interval.ms",
        600000,
        "Time between two checks for producers that have expired, in ms.",
        1,
        is_internal=True,
    ),
    number_setting(ConfigType.INT, "max.incremental.fetch.session.cache.slots", 1000, "Most fetch sessions at one time (KIP-227).", 0),
)

# Kafka reads each topic setting's default from a broker setting of another name.
_TOPIC_DEFAULTS = tuple(
    Setting(
        name=s.broker_name,
        type=s.type,
        default=s.default,
        doc=f"Default of {s.name}: {s.doc}",
        low=None if s.broker_name == "log.retention.ms" else s.low,  # any negative time means none, and 0 is refused at the start
        high=s.high,
        also=s.also,
        choices=s.choices,
    )
    for s in TOPIC_SETTINGS.values()
    if s.broker_name is not None
)

BROKER_SETTINGS: Mapping[str, Setting] = {
    s.name: s for s in sorted(_OWN_BROKER_SETTINGS + SECURITY_SETTINGS + _TOPIC_DEFAULTS, key=lambda s: s.name)
}

# What may change while the broker runs: what is read at each use, or taken up when it changes.
DYNAMIC_BROKER_SETTINGS = frozenset(s.name for s in _TOPIC_DEFAULTS) | {
    "group.consumer.assignment.interval.ms",
    "group.coordinator.cached.buffer.max.bytes",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "num.recovery.threads.per.data.dir",
    "producer.id.expiration.ms",
}

# The settings from which one that is not given takes its value: the first that is set or has a default, times its factor. A negative time
# means none.
OTHER_UNITS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}
