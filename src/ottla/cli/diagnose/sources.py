"""The sources that a command line names, read for every command that tells the history of groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from ottla.cli.clusters import CommandFailed, client_settings, of_error
from ottla.client.errors import ClientError
from ottla.history.reading import Gathered, Sources, gather
from ottla.history.sources.evidence import SourceError
from ottla.protocol.errors import PeerError
from ottla.text import printable

CLIENT_ID: Final = "ottla-diagnose"
NO_SOURCE: Final = (
    "nothing to read: give --bootstrap-server HOST:PORT for a running cluster, --broker-log FILE for the log of a coordinator, "
    "--offsets-topic DIR for a data directory, --archive DIR for what `ottla watch` stored, or --client-log FILE"
)
OTHER_SOURCES: Final = (
    "The lines of the group coordinator are in the broker's log of level INFO; a cluster's history is in its offsets topic and in the "
    "archives of `ottla watch`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a command line names. Files and directories may be patterns."""

    bootstrap_server: str | None = None
    command_config: str | None = None
    broker_logs: Sequence[str] = ()
    client_logs: Sequence[str] = ()
    offsets_topics: Sequence[str] = ()
    archives: Sequence[str] = ()
    groups: Sequence[str] = ()


def read_sources(options: SourceOptions, *, zone: tzinfo) -> Gathered:
    """All evidence; `zone`: of times without one. Raises CommandFailed with a sentence where a source cannot be used."""
    try:
        server, client = options.bootstrap_server, None
        if server:
            client = client_settings(server, options.command_config, client_id=CLIENT_ID)
        sources = Sources(
            broker_logs=options.broker_logs,
            client_logs=options.client_logs,
            offsets_topics=options.offsets_topics,
            archives=options.archives,
            client=client,
            groups=options.groups,
        )
        if not sources:
            raise CommandFailed(NO_SOURCE)
        return gather(sources, zone=zone)
    except (SourceError, CommandFailed, ValueError) as error:
        raise CommandFailed(printable(str(error))) from error
    except (ClientError, PeerError) as error:
        raise CommandFailed(printable(str(of_error(error)))) from error
