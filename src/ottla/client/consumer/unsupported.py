"""Properties of Kafka's or librdkafka's consumers that `ottla.Consumer` does not support, each with advice. A table."""

from typing import Final

_OUT: Final = "leave it out"
_LOGGING: Final = "the logger ottla.consumer has the consumer's log lines: set its level"
_JAVA: Final = "Java classes cannot run here: leave it out"

UNSUPPORTED: Final = {
    "metric.reporters": _JAVA,
    "group.remote.assignor": "it belongs to the protocol of KIP-848, which is not there yet: leave it out",
    "internal.leave.group.on.close": "members leave on close, static ones stay: leave it out",
    "error_cb": "errors are raised, or come as messages with an error: leave it out",
    "stats_cb": "there are no statistics yet: leave it out",
    "throttle_cb": "brokers that throttle answer later: leave it out",
    "statistics.interval.ms": "there are no statistics yet: leave it out",
    "debug": _LOGGING,
    "log_level": _LOGGING,
    "logger": _LOGGING,
    "log.connection.close": _LOGGING,
    "enable.ssl.certificate.verification": "certificates are always verified: set ssl.ca.location",
    "queued.min.messages": "prefetching is bounded by bytes: set queued.max.messages.kbytes",
    "fetch.queue.backoff.ms": "fetches go on as soon as there is space: leave it out",
    "fetch.error.backoff.ms": "set retry.backoff.ms",
    "topic.metadata.refresh.fast.interval.ms": "topics that are missing are looked for every second: leave it out",
    "topic.metadata.refresh.sparse": "only the topics of interest are asked for: leave it out",
    "topic.metadata.propagation.max.ms": "topics that are missing are looked for every second: leave it out",
    "topic.blacklist": "leave topics out of the subscription",
    "coordinator.query.interval.ms": "the coordinator is looked for when it is needed: leave it out",
    "group.protocol.type": "it is always consumer: leave it out",
    "receive.message.max.bytes": "responses are bounded by fetch.max.bytes: set that",
    "message.max.bytes": "it belongs to producers: leave it out",
    "max.in.flight": _OUT,
    "max.in.flight.requests.per.connection": _OUT,
    "socket.keepalive.enable": _OUT,
    "socket.nagle.disable": "small requests are always sent at once: leave it out",
    "socket.max.fails": _OUT,
    "broker.address.ttl": _OUT,
    "broker.address.family": "every address of a name is tried: leave it out",
    "broker.version.fallback": "brokers say what they support: leave it out",
    "api.version.request": "brokers are always asked: leave it out",
    "api.version.request.timeout.ms": "set request.timeout.ms",
    "api.version.fallback.ms": "brokers say what they support: leave it out",
    "offset.store.method": "offsets are stored by the coordinator: leave it out",
    "default.topic.config": "set its properties beside the others",
    "plugin.library.paths": "libraries cannot be loaded here: leave it out",
    "consume.callback.max.messages": _OUT,
    "metadata.max.idle.ms": _OUT,
}
