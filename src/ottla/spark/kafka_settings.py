"""The options that begin with "kafka.": settings of the client that asks and fetches, and what Spark's own Kafka source refuses of them.

Everything that it lets through goes to the client's own settings, which refuse by name what means nothing here. No connection is opened.
"""

import logging
from collections.abc import Mapping
from typing import Final

from ottla.consumer.settings import ClientSettings, parse_client_settings
from ottla.spark.option_values import OptionError

PREFIX: Final = "kafka."
CLIENT_ID: Final = "ottla-spark"
GROUP_ID: Final = "kafka.group.id"

_REFUSED: Final[Mapping[str, str]] = {
    "kafka.key.deserializer": "Kafka option 'key.deserializer' is not supported: keys come as binary. Cast or decode the column.",
    "kafka.value.deserializer": "Kafka option 'value.deserializer' is not supported: values come as binary. Cast or decode the column.",
    "kafka.enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
_NOT_THE_CLIENT_S: Final = frozenset({GROUP_ID, "kafka.auto.offset.reset"})
"""Read elsewhere: they say where to start."""

_OF_MEMBERS: Final = ("kafka.session.timeout.ms", "kafka.heartbeat.interval.ms", "kafka.max.poll.interval.ms")
"""Spark's own source hands them to consumers that are members of no group either; people set them where its warning says so."""

_GROUP_WARNING: Final = (
    'Kafka option "kafka.group.id" is set on this query. Here it joins no group and commits nothing, so that queries with one id do not get'
    " in each other's way; it only names the group of startingOffsets=group. To commit the query's progress, set the option \"group.id\"."
)

log = logging.getLogger("ottla.spark")


def parse_kafka_options(options: Mapping[str, str]) -> ClientSettings:
    """The client's settings from a query's options (by lower-case names); the others are passed over. Raises OptionError."""
    for name, message in _REFUSED.items():
        if name in options:
            raise OptionError(message)
    if not options.get("kafka.bootstrap.servers", "").strip():
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified: where the brokers are, host:port,host:port.")
    properties = {
        name.removeprefix(PREFIX): value
        for name, value in options.items()
        if name.startswith(PREFIX) and name not in _NOT_THE_CLIENT_S and name not in _OF_MEMBERS
    }
    try:
        return parse_client_settings({"client.id": CLIENT_ID, **properties})
    except ValueError as error:
        raise OptionError(f"Kafka option {error}.") from error


def warn_of_group_options(options: Mapping[str, str]) -> None:
    """Says what kafka.group.id, and the times of a group's members, do not do here."""
    for name in _OF_MEMBERS:
        if name in options:
            log.warning('Kafka option "%s" has no effect: it is for members of a group, and no group is joined here.', name)
    if GROUP_ID in options:
        log.warning(_GROUP_WARNING)
        if "groupidprefix" in options:
            log.warning("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")
