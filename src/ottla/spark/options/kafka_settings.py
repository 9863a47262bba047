"""The options that begin with "kafka.": settings of the client, without those that Spark's own Kafka source refuses.

The other properties go to the client's own settings, which refuse unsupported ones by name. It opens no connection.
"""

import logging
from collections.abc import Mapping
from typing import Final

from ottla.client.consumer.properties import OWN
from ottla.client.settings import ClientSettings, parse_client_settings
from ottla.spark.options.values import OptionError

PREFIX: Final = "kafka."
CLIENT_ID: Final = "ottla-spark"
GROUP_ID: Final = "kafka.group.id"

API_TIMEOUT: Final = "kafka.default.api.timeout.ms"
BOOTSTRAP_TIMEOUT_MS: Final = 5_000
"""How long a query tries to reach a first broker, unless default.api.timeout.ms is set: the addresses are probably wrong."""

_REFUSED: Final[Mapping[str, str]] = {
    "kafka.key.deserializer": "Kafka option 'key.deserializer' is not supported: keys come as binary. Cast or decode the column.",
    "kafka.value.deserializer": "Kafka option 'value.deserializer' is not supported: values come as binary. Cast or decode the column.",
    "kafka.enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "kafka.interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
_NOT_FOR_THE_CLIENT: Final = frozenset({GROUP_ID, "kafka.auto.offset.reset"})
"""Read by `positions`: they set where a query starts."""
_OF_A_MEMBER: Final = frozenset({PREFIX + name for name in OWN})
"""Read by `group_mode`."""

_OF_MEMBERS: Final = "it is for members of a group, and no group is joined here"
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "kafka.session.timeout.ms": _OF_MEMBERS,
    "kafka.heartbeat.interval.ms": _OF_MEMBERS,
    "kafka.max.poll.interval.ms": _OF_MEMBERS,
    "kafka.max.poll.records": "records come as whole responses, bounded by kafka.max.partition.fetch.bytes",
}
"""Settings without effect on rows in Spark's own source either: accepted with a warning, so that its queries can be moved here."""

_GROUP_WARNING: Final = (
    'Kafka option "kafka.group.id" is set on this query. Here it joins no group and commits nothing, so that queries with one id do not get'
    " in each other's way; it only names the group of startingOffsets=group. To commit the query's progress, set the option \"group.id\"."
)

_MEMBER_WARNING: Final = (
    'Kafka option "kafka.group.id" has no effect: the option "group.id" names the group of which the query is a member.'
)

log = logging.getLogger(__name__)


def parse_kafka_options(options: Mapping[str, str], *, is_member: bool = False) -> ClientSettings:
    """The client's settings from a query's options (by lower-case names); other options are ignored. Raises OptionError.

    `is_member`: the query is a member of its group, whose own settings are among the options.
    """
    for name, message in _REFUSED.items():
        if name in options:
            raise OptionError(message)
    if not options.get("kafka.bootstrap.servers", "").strip():
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified: the addresses of brokers, host:port,host:port.")
    others = _OF_A_MEMBER if is_member else _NOT_FOR_THE_CLIENT | _WITHOUT_EFFECT.keys()
    properties = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX) and name not in others}
    try:
        return parse_client_settings({"client.id": CLIENT_ID, **properties})
    except ValueError as error:
        raise OptionError(f"Kafka option {error}.") from error


def bootstrap_timeout_ms(options: Mapping[str, str], client: ClientSettings) -> int:
    """How long to try to reach a first broker. `options`: those of which `client` was made."""
    return client.default_api_timeout_ms if API_TIMEOUT in options else BOOTSTRAP_TIMEOUT_MS


def warn_of_no_effect(options: Mapping[str, str], *, is_member: bool = False) -> None:
    """Log a warning for each option without effect, with the reason. `is_member`: the query is a member of its group."""
    for name, why in _WITHOUT_EFFECT.items():
        if name in options and not (is_member and why is _OF_MEMBERS):
            log.warning('Kafka option "%s" has no effect: %s.', name, why)
    if GROUP_ID in options:
        log.warning(_MEMBER_WARNING if is_member else _GROUP_WARNING)
    if "groupidprefix" in options:
        because = "as option kafka.group.id has been set" if GROUP_ID in options else "as no group is joined here"
        log.warning("Option groupIdPrefix will be ignored %s.", because)
