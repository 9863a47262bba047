"""`ottla copy-topic SOURCE TARGET`: the messages of a topic into one with fewer partitions or more, by Spark; groups go along."""

import tempfile
from pathlib import Path

import click

from ottla.core.text import printable


@click.command("copy-topic")
@click.argument("source")
@click.argument("target")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT", help="A broker, or several with commas; Ottla or Apache Kafka.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Take only this group's offsets along; may be repeated.")
@click.option("--no-groups", is_flag=True, help="Take no group's offsets along.")
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
    help="Keep the table of old and new offsets here, as Parquet; without it, it is thrown away.",
)
@click.option("--cores", default="*", show_default=True, metavar="N", help="Cores of this machine to use.")
def command(
    source: str,
    target: str,
    bootstrap_server: str,
    groups: tuple[str, ...],
    no_groups: bool,
    partitioner: str,
    offset_map: Path | None,
    cores: str,
) -> None:
    """Copy the messages of SOURCE into TARGET, which exists, is empty, and may have any number of partitions.

    Messages with the same key keep their order; their times and headers stay. Each group that has committed offsets for SOURCE (or each
    --group) gets offsets for TARGET from which it misses nothing; it may read a few messages again. Stop producers and consumers first.
    The exit status is 1 when something is in the way; then it says what.
    """
    if no_groups and groups:
        raise click.UsageError("write --group or --no-groups, not both")
    _check_addresses(bootstrap_server)
    from rich.console import Console

    from ottla.cli.spark_failures import own_sentence
    from ottla.consumer.errors import ClientError
    from ottla.core.extras import require

    require("spark")
    from ottla.spark.copy_topic import TopicCopy
    from ottla.spark.copy_writer import CopyError
    from ottla.spark.sessions import JavaMissingError, session

    with tempfile.TemporaryDirectory(prefix="ottla-copy-") as scratch:
        copy = TopicCopy(
            bootstrap_servers=bootstrap_server,
            source=source,
            target=target,
            directory=str(offset_map or scratch),
            partitioner=partitioner,
            groups=() if no_groups else groups or None,
        )
        try:
            with Console(stderr=True).status(f"copying {source} to {target}"):
                spark = session("ottla-copy-topic", master=f"local[{cores},1]")
                try:
                    copied = copy.run(spark)
                finally:
                    spark.stop()
        except (ClientError, CopyError, JavaMissingError) as error:
            raise click.ClickException(str(error)) from error
        except Exception as error:
            sentence = own_sentence(error)
            if sentence is None:
                raise
            raise click.ClickException(sentence) from error
    click.echo(f"{copied.records} messages copied from {source} to {target}")
    for group, offsets in sorted(copied.groups.items()):
        click.echo(f"{printable(group)}: " + ", ".join(f"{place.partition}:{offset}" for place, offset in sorted(offsets.items())))


def _check_addresses(bootstrap_server: str) -> None:
    """Before Spark starts, which takes its time."""
    from ottla.consumer.addresses import parse_addresses

    try:
        parse_addresses(bootstrap_server)
    except ValueError as error:
        raise click.BadParameter(f"{error}: write for example 127.0.0.1:9092", param_hint="--bootstrap-server") from error


COMMAND = command
