"""The message for an unknown option, with the nearest name.

Spark passes options to a Python source by lower-case names only: how a name was written is not known then. It parses no values.
"""

from collections.abc import Iterable

from ottla.core.suggestions import did_you_mean


def unknown_option(name: str, known: Iterable[str], properties: Iterable[str], *, where: str = "") -> str:
    """The message for an unknown option, `name` as given. `known`: all options; `properties`: those of the Kafka client.

    `where` says for what it is unknown, such as " for writing".
    """
    start = f'The option "{name}" is not supported{where}'
    options, kafka = tuple(known), tuple(properties)
    if name.lower() in kafka:
        return f'{start}: it is a property of the Kafka client, write "kafka.{name}".'
    meant = did_you_mean(name, options) or did_you_mean(f"kafka.{name.lower().removeprefix('kafka.')}", [f"kafka.{each}" for each in kafka])
    return f"{start}{meant}" if meant else f"{start}; the options are {', '.join(options)} and kafka.*: leave it out."
