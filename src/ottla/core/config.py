"""The settings of broker and topics: Kafka's names, types, defaults and sentences, as a table that flags, DescribeConfigs and docs read.

It checks values; it never acts on them. A topic setting names the broker setting it falls back to (`broker_name`), as in Kafka.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from math import isnan

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Types as DescribeConfigs v3+ names them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs v1+ says it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: `low`/`high` bound a number, which may be `also` instead; `choices` a string or the items of a list.

    A `default` of "" is none at all (Kafka's null). An `is_internal` setting can be given but is not described, as in Kafka.
    """

    name: str
    type: ConfigType
    default: str
    doc: str
    low: float | None = None
    high: float | None = None
    also: float | None = None
    choices: tuple[str, ...] = ()
    broker_name: str | None = None
    is_internal: bool = False

    def problem(self, value: str | None) -> str | None:
        """Why `value` cannot be, as a sentence for the person who set it; None when it can."""
        if value is None:
            return f"Invalid value null for configuration {self.name}: a value is needed."
        text = value.strip()
        if self.type is ConfigType.BOOLEAN:
            return None if text.lower() in ("true", "false") else self._refuse(value, "Expected value to be either true or false")
        if self.type in (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE):
            return self._number_problem(value)
        items = [item.strip() for item in text.split(",")] if self.type is ConfigType.LIST and text else [text]
        if self.choices and any(item not in self.choices for item in items if item):
            return self._refuse(value, f"String must be one of: {', '.join(self.choices)}")
        return None

    def _number_problem(self, value: str) -> str | None:
        try:
            number: float = float(value) if self.type is ConfigType.DOUBLE else int(value.strip())
        except ValueError:
            return self._refuse(value, f"Not a number of type {self.type.name}")
        width = {ConfigType.INT: 31, ConfigType.SHORT: 15}.get(self.type, 63)
        if isnan(number) if self.type is ConfigType.DOUBLE else not -(2**width) <= number < 2**width:
            return self._refuse(value, f"Not a number of type {self.type.name}")
        if self.also is not None and number == self.also:
            return None
        either = "" if self.also is None else f" or equal to {self.also:g}"
        if self.low is not None and number < self.low:
            return self._refuse(value, f"Value must be at least {self.low:.15g}{either}")
        if self.high is not None and number > self.high:
            return self._refuse(value, f"Value must be no more than {self.high:.15g}{either}")
        return None

    def _refuse(self, value: str, why: str) -> str:
        return f"Invalid value {value} for configuration {self.name}: {why}"


def _bool(name: str, default: bool, doc: str, broker: str | None = None) -> Setting:
    return Setting(name=name, type=ConfigType.BOOLEAN, default=str(default).lower(), doc=doc, broker_name=broker)


def _num(
    kind: ConfigType,
    name: str,
    default: float | str | None,
    doc: str,
    low: float | None = None,
    broker: str | None = None,
    high: float | None = None,
    *,
    also: float | None = None,
    is_internal: bool = False,
) -> Setting:
    text = "" if default is None else str(default)
    return Setting(name=name, type=kind, default=text, doc=doc, low=low, high=high, also=also, broker_name=broker, is_internal=is_internal)


_INT, _LONG, _SHORT, _DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.DOUBLE

_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            name="cleanup.policy",
            type=ConfigType.LIST,
            default="delete",
            doc="What becomes of old segments: delete, compact, or both.",
            choices=("delete", "compact"),
            broker_name="log.cleanup.policy",
        ),
        _num(
            _INT,
            "compression.gzip.level",
            -1,
            "The level of gzip where the broker compresses; -1 is zlib's own choice.",
            1,
            "compression.gzip.level",
            9,
            also=-1,
        ),
        _num(_INT, "compression.lz4.level", 9, "The level of lz4 where the broker compresses.", 1, "compression.lz4.level", 17),
        Setting(
            name="compression.type",
            type=ConfigType.STRING,
            default="producer",
            doc="The codec of what is stored; producer keeps what the producer chose.",
            choices=_CODECS,
            broker_name="compression.type",
        ),
        _num(_INT, "compression.zstd.level", 3, "The level of zstd where the broker compresses.", -131072, "compression.zstd.level", 22),
        _num(_LONG, "delete.retention.ms", 86400000, "How long a tombstone is kept, in ms.", 0, "log.cleaner.delete.retention.ms"),
        _num(_LONG, "file.delete.delay.ms", 60000, "How long a deleted file is kept on disk, in ms.", 0, "log.segment.delete.delay.ms"),
        _num(_LONG, "flush.messages", LONG_MAX, "Records after which the log is synced to disk.", 1, "log.flush.interval.messages"),
        _num(_LONG, "flush.ms", LONG_MAX, "Longest time before the log is synced to disk, in ms.", 0, "log.flush.interval.ms"),
        _num(_INT, "index.interval.bytes", 4096, "Bytes of log between two entries of the offset index.", 0, "log.index.interval.bytes"),
        _num(
            _LONG,
            "max.compaction.lag.ms",
            LONG_MAX,
            "Longest time a record stays uncompacted, in ms.",
            1,
            "log.cleaner.max.compaction.lag.ms",
        ),
        _num(_INT, "max.message.bytes", 1048588, "Largest record batch that is accepted, in bytes.", 0, "message.max.bytes"),
        _num(
            _LONG,
            "message.timestamp.after.max.ms",
            3600000,
            "How far ahead of the broker's clock a timestamp may be, in ms.",
            0,
            "log.message.timestamp.after.max.ms",
        ),
        _num(
            _LONG,
            "message.timestamp.before.max.ms",
            LONG_MAX,
            "How far behind the broker's clock a timestamp may be, in ms.",
            0,
            "log.message.timestamp.before.max.ms",
        ),
        Setting(
            name="message.timestamp.type",
            type=ConfigType.STRING,
            default="CreateTime",
            doc="Whose time a record carries: its producer's, or the broker's at append.",
            choices=("CreateTime", "LogAppendTime"),
            broker_name="log.message.timestamp.type",
        ),
        _num(
            _DOUBLE,
            "min.cleanable.dirty.ratio",
            0.5,
            "Share of dirty bytes from which on a log is compacted.",
            0,
            "log.cleaner.min.cleanable.ratio",
            1,
        ),
        _num(_LONG, "min.compaction.lag.ms", 0, "Shortest time a record stays uncompacted, in ms.", 0, "log.cleaner.min.compaction.lag.ms"),
        _num(_INT, "min.insync.replicas", 1, "Replicas that must have a record before acks=all answers.", 1, "min.insync.replicas"),
        _bool(
            "preallocate",
            False,
            "Whether a new segment's file is made at full size. Kept and shown only: files grow as they fill.",
            "log.preallocate",
        ),
        _num(_LONG, "retention.bytes", -1, "Bytes a partition keeps; -1 keeps all.", None, "log.retention.bytes"),
        _num(_LONG, "retention.ms", 604800000, "How long records are kept, in ms; -1 keeps them for ever.", -1, "log.retention.ms"),
        _num(_INT, "segment.bytes", 1073741824, "Size at which a new segment begins, in bytes.", 1048576, "log.segment.bytes"),
        _num(_INT, "segment.index.bytes", 10485760, "Largest size of a segment's index, in bytes.", 4, "log.index.size.max.bytes"),
        _num(_LONG, "segment.jitter.ms", 0, "Random time taken off segment.ms, in ms.", 0, "log.roll.jitter.ms"),
        _num(_LONG, "segment.ms", 604800000, "Age at which a new segment begins, in ms.", 1, "log.roll.ms"),
        _bool(
            "unclean.leader.election.enable",
            False,
            "Whether a replica that is behind may lead.",
            "unclean.leader.election.enable",
        ),
    )
}

_LOAD_FACTOR_MIN = 0.0001
"""Kafka has no bound. Of the smallest table, 1 MiB, this share is four keys; with a table for none a cleaning would never end."""

_OWN_BROKER_SETTINGS = (
    _num(_INT, "node.id", 1, "The broker's number in the cluster.", 0),
    _bool("auto.create.topics.enable", True, "Whether a topic is made when a client first asks for it."),
    _num(_INT, "num.partitions", 1, "Partitions of a topic that is made without a count.", 1),
    _num(_SHORT, "default.replication.factor", 1, "Replicas of a topic that is made without a factor.", 1),
    _bool("delete.topic.enable", True, "Whether topics may be deleted."),
    _num(_INT, "fetch.max.bytes", 57671680, "Most bytes in one answer to Fetch.", 1024),
    _num(_INT, "socket.request.max.bytes", 104857600, "Largest request that is read, in bytes.", 1),
    _num(_INT, "max.connections", INT_MAX, "Most connections at one time; the next one is closed.", 0),
    _num(_INT, "group.min.session.timeout.ms", 6000, "Shortest session timeout that a member may ask for, in ms."),
    _num(_INT, "group.max.session.timeout.ms", 1800000, "Longest session timeout that a member may ask for, in ms."),
    _num(_INT, "group.initial.rebalance.delay.ms", 0, "How long a new group waits for more members, in ms (Apache Kafka: 3000)."),
    _num(_INT, "group.max.size", INT_MAX, "Most members of one group.", 1),
    _num(_INT, "offset.metadata.max.bytes", 4096, "Longest metadata string of a committed offset."),
    _num(_INT, "offsets.retention.minutes", 10080, "How long the offsets of a group that nobody is a member of are kept, in minutes.", 1),
    _num(_LONG, "offsets.retention.check.interval.ms", 600000, "Time between two looks for offsets that are too old, in ms.", 1),
    _num(
        _INT, "offsets.topic.compression.codec", 0, "Codec of what coordinators write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", 0, high=4
    ),
    _num(
        _INT,
        "offsets.commit.timeout.ms",
        5000,
        "How long a commit may wait for replicas, in ms. Kept and shown only: there are none to wait for.",
        1,
    ),
    _num(
        _INT,
        "offsets.load.buffer.size",
        5242880,
        "How much of __consumer_offsets is read at a time when a coordinator loads, in bytes. Kept and shown only.",
        1,
    ),
    _num(_INT, "group.coordinator.threads", 4, "Threads of coordinators. Kept and shown only: they share the broker's one.", 1),
    _num(
        _INT, "group.coordinator.background.threads", 2, "Threads for work beside requests. Kept and shown only: there is no such work.", 1
    ),
    _num(
        _INT,
        "group.coordinator.append.linger.ms",
        -1,
        "How long a coordinator gathers records before it writes. Kept and shown only: it is -1, what arrives together.",
        -1,
    ),
    _num(
        _INT,
        "group.coordinator.cached.buffer.max.bytes",
        1048588,
        "Largest write buffer that a coordinator keeps, in bytes. Kept and shown only: none is kept.",
        524288,
    ),
    _num(_INT, "offsets.topic.num.partitions", 50, "Partitions of __consumer_offsets when it is made.", 1),
    _num(_SHORT, "offsets.topic.replication.factor", 3, "Replicas of __consumer_offsets, at most one a broker.", 1),
    _num(_INT, "offsets.topic.segment.bytes", 104857600, "Size at which a new segment of __consumer_offsets begins, in bytes.", 1),
    _bool("log.cleaner.enable", True, "Whether compacted topics are cleaned; without it __consumer_offsets grows without bound."),
    _num(_INT, "log.cleaner.threads", 1, "Threads that clean.", 1),
    _num(_LONG, "log.cleaner.dedupe.buffer.size", 134217728, "Memory for the cleaner's tables of keys, of all threads, in bytes."),
    _num(_INT, "log.cleaner.io.buffer.size", 524288, "Memory for the cleaner's reading and writing, of all threads, in bytes.", 0),
    _num(
        _DOUBLE,
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "How full a cleaner's table of keys may get, as a share of it.",
        _LOAD_FACTOR_MIN,
        high=1,
    ),
    _num(
        _DOUBLE, "log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", "Most bytes a second that cleaning reads and writes.", 1
    ),
    _num(_LONG, "log.cleaner.backoff.ms", 15000, "How long a cleaner rests when there is nothing to clean, in ms.", 0),
    _num(_INT, "log.retention.hours", 168, "As log.retention.ms, in hours; read when neither ms nor minutes are set.", 1, also=-1),
    _num(_INT, "log.retention.minutes", None, "As log.retention.ms, in minutes; read when that is not set.", 1, also=-1),
    _num(_LONG, "log.retention.check.interval.ms", 300000, "Time between two looks for segments that retention deletes, in ms.", 1),
    _num(_INT, "log.roll.hours", 168, "As log.roll.ms, in hours; read when that is not set.", 1),
    _num(_INT, "log.roll.jitter.hours", 0, "As log.roll.jitter.ms, in hours; read when that is not set.", 0),
    _num(
        _LONG,
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        "Default of log.flush.interval.ms, in ms. Nothing looks at logs so often: each is synced when its flush.ms is over.",
    ),
    _num(_INT, "log.flush.offset.checkpoint.interval.ms", 60000, "Time between two writes of the recovery points, in ms.", 0),
    _num(_INT, "log.flush.start.offset.checkpoint.interval.ms", 60000, "Time between two writes of the log starts, in ms.", 0),
    _num(_LONG, "log.initial.task.delay.ms", 30000, "Time from the start to the first periodic work, in ms.", 0, is_internal=True),
    _num(_INT, "num.recovery.threads.per.data.dir", 2, "Threads that recover logs at a start after a crash, and sync them at a stop.", 1),
    _num(_INT, "producer.id.expiration.ms", 86400000, "How long an idempotent producer is known after its last write, in ms.", 1),
    _num(
        _INT,
        "producer.id.expiration.check.interval.ms",
        600000,
        "Time between two looks for producers that have expired, in ms.",
        1,
        is_internal=True,
    ),
    _num(_INT, "max.incremental.fetch.session.cache.slots", 1000, "Most fetch sessions at one time (KIP-227).", 0),
)

# Kafka reads each topic setting's default from a broker setting of another name.
_TOPIC_DEFAULTS = tuple(
    Setting(
        name=s.broker_name,
        type=s.type,
        default=s.default,
        doc=f"Default of {s.name}: {s.doc}",
        low=s.low,
        high=s.high,
        also=s.also,
        choices=s.choices,
    )
    for s in TOPIC_SETTINGS.values()
    if s.broker_name is not None
)

BROKER_SETTINGS: Mapping[str, Setting] = {s.name: s for s in sorted(_OWN_BROKER_SETTINGS + _TOPIC_DEFAULTS, key=lambda s: s.name)}

# What may change while the broker runs: what is read at each use.
DYNAMIC_BROKER_SETTINGS = frozenset(s.name for s in _TOPIC_DEFAULTS) - {"min.insync.replicas"} | {
    "group.coordinator.cached.buffer.max.bytes",
    "num.recovery.threads.per.data.dir",
    "producer.id.expiration.ms",
}

# Where a setting that is not given gets its value from: the first of these that is set or has a default, times so many ms. A negative
# time is none at all.
OTHER_UNITS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}

_CLEANER_TABLE_BYTES_MIN = 1024 * 1024


class ConfigError(ValueError):
    """A setting with an unknown name or an impossible value: the message says which, and what would do."""


OTHER_GROUP_PROTOCOLS = ("group.consumer.", "group.share.", "group.streams.", "group.coordinator.rebalance.protocols")
"""Settings of Kafka's that would promise what is not there."""


def _unknown(name: str) -> str:
    if name in TOPIC_SETTINGS:
        return f"{name} is a setting of topics; the broker's default for all of them is {TOPIC_SETTINGS[name].broker_name}"
    if name.startswith(OTHER_GROUP_PROTOCOLS):
        return f"{name} is about group protocols; this broker has Kafka's classic one and no other (docs/groups.md)"
    return f"unknown setting {name}; docs/settings.md lists them"


@dataclass(frozen=True)
class BrokerConfig:
    """The broker's own settings, checked: what `--config k=v` gave, and Kafka's defaults for the rest."""

    given: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise ConfigError(_unknown(name))
            problem = setting.problem(value)
            if problem is not None:
                raise ConfigError(problem)
        if self.number("log.cleaner.dedupe.buffer.size") // self.number("log.cleaner.threads") <= _CLEANER_TABLE_BYTES_MIN:
            # Kafka's sentence, and Kafka's check, which wants a byte more than the sentence.
            raise ConfigError(
                "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
                f" {_CLEANER_TABLE_BYTES_MIN + 1} bytes for each will do."
            )

    def text(self, name: str) -> str:
        """The value of a setting as it is written, or as a setting in another unit gives it; "" when it has none."""
        if name not in self.given:
            for other, factor in OTHER_UNITS.get(name, ()):
                if self.text(other):
                    value = self.number(other)
                    return str(value * factor if value >= 0 else -1)
        return self.given.get(name, BROKER_SETTINGS[name].default)

    def number(self, name: str) -> int:
        """The value of a whole-number setting, in the unit of its name."""
        return int(self.text(name))

    def share(self, name: str) -> float:
        """The value of a setting that is no whole number."""
        return float(self.text(name))

    def flag(self, name: str) -> bool:
        """The value of a true/false setting."""
        return self.text(name).strip().lower() == "true"

    @cached_property
    def node_id(self) -> int:
        """The broker's number."""
        return self.number("node.id")
