"""Kafka's consumer properties that this client does not support, each with advice. A table, read by `settings`."""

from typing import Final

_LEAVE_OUT: Final = "leave it out"
_MEMBERSHIP: Final = "it belongs to members of a consumer group, and reading by ranges of offsets needs none: leave it out"
_METRICS: Final = "this client has no metrics of Kafka's kind: leave it out"
_BYTES: Final = "keys and values are handed over as the bytes they are: leave it out, and convert the columns"

REFUSED: Final = {
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "auto.offset.reset": "reading begins where the requested ranges begin: leave it out",
    "enable.auto.commit": "nothing is committed by reading: leave it out",
    "auto.commit.interval.ms": "nothing is committed by reading: leave it out",
    "interceptor.classes": "Java classes cannot run here: leave it out",
    "group.id": _MEMBERSHIP,
    "group.instance.id": _MEMBERSHIP,
    "group.protocol": _MEMBERSHIP,
    "group.remote.assignor": _MEMBERSHIP,
    "session.timeout.ms": _MEMBERSHIP,
    "heartbeat.interval.ms": _MEMBERSHIP,
    "max.poll.interval.ms": _MEMBERSHIP,
    "partition.assignment.strategy": _MEMBERSHIP,
    "internal.leave.group.on.close": _MEMBERSHIP,
    "max.poll.records": "records come as whole responses, bounded by max.partition.fetch.bytes: set that instead",
    "exclude.internal.topics": "topics are read by name: leave it out",
    "socket.connection.setup.timeout.max.ms": "the time for connecting does not grow: set socket.connection.setup.timeout.ms",
    "metadata.recovery.rebootstrap.trigger.ms": "bootstrap.servers are always asked again: leave it out",
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "auto.include.jmx.reporter": _METRICS,
    "config.providers": "write the value itself: " + _LEAVE_OUT,
    "share.acknowledgement.mode": "share groups are not read here: " + _LEAVE_OUT,
    "share.acquire.mode": "share groups are not read here: " + _LEAVE_OUT,
}
