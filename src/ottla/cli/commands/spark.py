"""`ottla spark checkpoint`: makes a checkpoint that the format "ottla" has continued readable for Spark's own Kafka source."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ottla.spark.checkpoints import Conversion


@click.group("spark", short_help="Convert what Spark keeps of queries on the format ottla.")
def command() -> None:
    """Convert what Spark keeps of queries on the format "ottla"."""


@command.command("checkpoint")
@click.argument("directory", metavar="DIR")
@click.option("--to", type=click.Choice(["kafka"]), required=True, help="The format that is to continue: Spark's own Kafka source.")
@click.option("--check", is_flag=True, help="Only print what would change, and where the query would continue.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def checkpoint(directory: str, to: str, check: bool, as_json: bool) -> None:
    """Convert the checkpoint in DIR, so that the query continues with format("kafka") exactly where it stopped.

    Stop the query first. The ids of topics are removed from the offsets in DIR; nothing else changes, and format("ottla") can continue the
    checkpoint, too. A conversion that was interrupted is completed by the same command. The exit status is 1 if the checkpoint cannot be
    converted; the reason is printed.
    """
    from ottla.extras import require

    require("spark")
    from ottla.spark.checkpoints import convert
    from ottla.spark.source.planning import CheckpointError

    if "://" in directory:
        raise click.ClickException(
            f"{directory} is not on this machine's file system: copy it here, convert the copy, and copy its folder offsets back"
        )
    try:
        found = convert(Path(directory.removeprefix("file:")))
        if not check:
            found.write()
    except (CheckpointError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(json.dumps(_document(found), indent=2) if as_json else _summary(found, to, is_check=check))


def _offsets(found: "Conversion") -> dict[str, dict[int, int]]:
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in sorted(found.offsets.items()):
        by_topic.setdefault(topic, {})[partition] = offset
    return by_topic


def _document(found: "Conversion") -> dict[str, Any]:
    """The same for --json; "again" is the batch that is run once more, if the last one had not ended."""
    return {
        "batches": found.batches,
        "converted": len(found.files),
        "again": None if found.is_done else found.last,
        "offsets": _offsets(found),
    }


def _summary(found: "Conversion", to: str, *, is_check: bool) -> str:
    if not found.files:
        return f'no offsets of {found.batches} batches have ids of topics: format("{to}") reads the checkpoint as it is'
    where = "; ".join(
        f"{topic} " + ", ".join(f"{partition}:{offset}" for partition, offset in offsets.items())
        for topic, offsets in _offsets(found).items()
    )
    how = "continues" if found.is_done else f"runs batch {found.last} again, which had not ended, and continues"
    changed = "would be converted" if is_check else "converted"
    return f'{len(found.files)} of {found.batches} batches {changed}\nformat("{to}") {how} at {where}'


COMMAND = command
