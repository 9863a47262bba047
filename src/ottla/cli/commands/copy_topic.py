"""`ottla copy-topic SOURCE TARGET`: copies a topic into one with another partition count, with Spark, and the groups' offsets."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.core.text import printable

if TYPE_CHECKING:
    from ottla.spark.copy.job import Copied, TopicCopy


@click.command("copy-topic", short_help="Copy a topic into one with more or fewer partitions.")
@click.argument("source")
@click.argument("target")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT", help="A broker, or several with commas; Ottla or Apache Kafka.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Copy only this group's offsets; may be repeated.")
@click.option("--no-groups", is_flag=True, help="Copy no offsets of groups.")
@click.option(
    "--partitioner",
    type=click.Choice(["murmur2", "crc32"]),
    default="murmur2",
    show_default=True,
    help="How the producers of TARGET will choose partitions: murmur2 (Java, kafka-python) or crc32 (librdkafka).",
)
@click.option(
    "--offset-map",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the table of old and new offsets here, as Parquet.",
)
@click.option("--cores", default="*", show_default=True, metavar="N", help="Cores of this machine to use.")
@click.option("--json", "as_json", is_flag=True, help="Print what was copied as JSON.")
def command(
    source: str,
    target: str,
    bootstrap_server: str,
    groups: tuple[str, ...],
    no_groups: bool,
    partitioner: str,
    offset_map: Path | None,
    cores: str,
    as_json: bool,
) -> None:
    """Copy the messages of SOURCE into TARGET, which exists, is empty, and may have any number of partitions.

    Messages keep their timestamps and headers, and those with the same key their order. Each group that has committed offsets for SOURCE
    (or each --group) gets offsets for TARGET: it misses no message, and may read a few again. Stop producers and consumers first. The
    exit status is 1 if the copy is not possible; the reason is printed.
    """
    if no_groups and groups:
        raise click.UsageError("write --group or --no-groups, not both")
    _check_addresses(bootstrap_server)
    from ottla.core.extras import require

    require("spark")
    from ottla.spark.copy.job import TopicCopy

    with tempfile.TemporaryDirectory(prefix="ottla-copy-") as scratch:
        copy = TopicCopy(
            bootstrap_servers=bootstrap_server,
            source=source,
            target=target,
            directory=str(offset_map or scratch),
            partitioner=partitioner,
            groups=() if no_groups else groups or None,
        )
        copied = _run(copy, f"copying {source} to {target}", cores)
    if as_json:
        click.echo(json.dumps(_document(source, target, copied), indent=2))
        return
    click.echo(f"{copied.records} messages copied from {source} to {target}")
    for group, offsets in sorted(copied.groups.items()):
        click.echo(f"{printable(group)}: " + ", ".join(f"{place.partition}:{offset}" for place, offset in sorted(offsets.items())))


def _document(source: str, target: str, copied: "Copied") -> dict[str, Any]:
    groups = {group: {place.partition: offset for place, offset in sorted(offsets.items())} for group, offsets in copied.groups.items()}
    return {"source": source, "target": target, "records": copied.records, "groups": groups}


def _run(copy: "TopicCopy", what: str, cores: str) -> "Copied":
    """Start Spark for the copy and stop it again. Raises click.ClickException with a sentence."""
    from rich.console import Console

    from ottla.cli.pipeline.spark_failures import own_sentence
    from ottla.client.errors import ClientError
    from ottla.spark.copy.writer import CopyError
    from ottla.spark.sessions import SessionError, session

    try:
        with Console(stderr=True).status(what):
            spark = session("ottla-copy-topic", master=f"local[{cores},1]")
            try:
                return copy.run(spark)
            finally:
                spark.stop()
    except (ClientError, CopyError, SessionError) as error:
        raise click.ClickException(str(error)) from error
    except Exception as error:
        sentence = own_sentence(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from error


def _check_addresses(bootstrap_server: str) -> None:
    """Before Spark starts, which takes its time."""
    from ottla.client.addresses import parse_addresses

    try:
        parse_addresses(bootstrap_server)
    except ValueError as error:
        raise click.BadParameter(f"{error}: write for example 127.0.0.1:9092", param_hint="--bootstrap-server") from error


COMMAND = command
