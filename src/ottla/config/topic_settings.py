"""The settings of topics: Kafka's names, types, defaults and bounds. Each names the broker setting that it falls back to, as in Kafka."""

from collections.abc import Mapping

from ottla.config.setting import LONG_MAX, ConfigType, Setting, flag_setting, number_setting

_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            name="cleanup.policy",
            type=ConfigType.LIST,
            default="delete",
            doc="What happens to old segments: delete, compact, or both.",
            choices=("compact", "delete"),
            broker_name="log.cleanup.policy",
        ),
        number_setting(
            ConfigType.INT,
            "compression.gzip.level",
            -1,
            "The level of gzip when the broker compresses; -1 is zlib's own choice.",
            1,
            "compression.gzip.level",
            9,
            also=-1,
        ),
        number_setting(
            ConfigType.INT, "compression.lz4.level", 9, "The level of lz4 when the broker compresses.", 1, "compression.lz4.level", 17
        ),
        Setting(
            name="compression.type",
            type=ConfigType.STRING,
            default="producer",
            doc="The codec of stored batches; producer keeps the producer's.",
            choices=_CODECS,
            broker_name="compression.type",
        ),
        number_setting(
            ConfigType.INT,
            "compression.zstd.level",
            3,
            "The level of zstd when the broker compresses.",
            -131072,
            "compression.zstd.level",
            22,
        ),
        number_setting(
            ConfigType.LONG, "delete.retention.ms", 86400000, "How long a tombstone is kept, in ms.", 0, "log.cleaner.delete.retention.ms"
        ),
        number_setting(
            ConfigType.LONG,
            "file.delete.delay.ms",
            60000,
            "How long a deleted file is kept on disk, in ms.",
            0,
            "log.segment.delete.delay.ms",
        ),
        number_setting(
            ConfigType.LONG, "flush.messages", LONG_MAX, "Records after which the log is synced to disk.", 1, "log.flush.interval.messages"
        ),
        number_setting(
            ConfigType.LONG, "flush.ms", LONG_MAX, "Longest time before the log is synced to disk, in ms.", 0, "log.flush.interval.ms"
        ),
        number_setting(
            ConfigType.INT,
            "index.interval.bytes",
            4096,
            "Bytes of log between two entries of the offset index.",
            0,
            "log.index.interval.bytes",
        ),
        number_setting(
            ConfigType.LONG,
            "max.compaction.lag.ms",
            LONG_MAX,
            "Longest time a record stays uncompacted, in ms.",
            1,
            "log.cleaner.max.compaction.lag.ms",
        ),
        number_setting(
            ConfigType.INT, "max.message.bytes", 1048588, "Largest record batch that is accepted, in bytes.", 0, "message.max.bytes"
        ),
        number_setting(
            ConfigType.LONG,
            "message.timestamp.after.max.ms",
            3600000,
            "How far ahead of the broker's clock a timestamp may be, in ms.",
            0,
            "log.message.timestamp.after.max.ms",
        ),
        number_setting(
            ConfigType.LONG,
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
            doc="The timestamp of a record: its producer's, or the broker's at append.",
            choices=("CreateTime", "LogAppendTime"),
            broker_name="log.message.timestamp.type",
        ),
        number_setting(
            ConfigType.DOUBLE,
            "min.cleanable.dirty.ratio",
            0.5,
            "Share of dirty bytes above which a log is compacted.",
            0,
            "log.cleaner.min.cleanable.ratio",
            1,
        ),
        number_setting(
            ConfigType.LONG,
            "min.compaction.lag.ms",
            0,
            "Shortest time a record stays uncompacted, in ms.",
            0,
            "log.cleaner.min.compaction.lag.ms",
        ),
        number_setting(
            ConfigType.INT, "min.insync.replicas", 1, "Replicas that must have a record before acks=all answers.", 1, "min.insync.replicas"
        ),
        flag_setting(
            "preallocate",
            False,
            "Whether a new segment's file is created at full size. No effect: files grow as they fill.",
            "log.preallocate",
        ),
        number_setting(ConfigType.LONG, "retention.bytes", -1, "Bytes a partition keeps; -1 keeps all.", None, "log.retention.bytes"),
        number_setting(
            ConfigType.LONG,
            "retention.ms",
            604800000,
            "How long records are kept, in ms; -1: without limit.",
            -1,
            "log.retention.ms",
        ),
        number_setting(
            ConfigType.INT, "segment.bytes", 1073741824, "Size at which a new segment begins, in bytes.", 1048576, "log.segment.bytes"
        ),
        number_setting(
            ConfigType.INT, "segment.index.bytes", 10485760, "Largest size of a segment's index, in bytes.", 4, "log.index.size.max.bytes"
        ),
        number_setting(ConfigType.LONG, "segment.jitter.ms", 0, "Random time subtracted from segment.ms, in ms.", 0, "log.roll.jitter.ms"),
        number_setting(ConfigType.LONG, "segment.ms", 604800000, "Age at which a new segment begins, in ms.", 1, "log.roll.ms"),
        flag_setting(
            "unclean.leader.election.enable",
            False,
            "Whether a replica that is behind may lead.",
            "unclean.leader.election.enable",
        ),
    )
}
