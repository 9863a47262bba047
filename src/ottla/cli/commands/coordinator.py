"""`ottla coordinator`: which broker serves a group, so that the right broker's log is read (S0.4, S2.6)."""

import json
import sys

import click


@click.command("coordinator")
@click.argument("group")
@click.option(
    "--bootstrap-server", metavar="HOST:PORT,...", help="Ask this cluster for the partition's leader, and how many partitions there are."
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 2**31 - 1),
    metavar="N",
    help="Of so many partitions (default: the cluster's own, 50 without one).",
)
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
@click.option(
    "--timeout", "timeout_ms", type=click.IntRange(min=1), default=30_000, metavar="MS", help="How long each question may take (30000)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    group: str, bootstrap_server: str | None, partitions: int | None, command_config: str | None, timeout_ms: int, as_json: bool
) -> None:
    """Say which partition of __consumer_offsets GROUP belongs to, and which broker leads it: that broker coordinates the group.

    The partition follows from the group's name and the number of partitions alone, so a group need not exist. Exit status: 1 when the
    cluster does not answer, or does not know the partition.
    """
    from ottla.cli.groups.coordinating import find_place, lines_of
    from ottla.cli.groups.failures import CommandFailed

    try:
        place = find_place(
            group, bootstrap_server=bootstrap_server, partitions=partitions, command_config=command_config, timeout_ms=timeout_ms
        )
    except CommandFailed as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(place.document(), indent=2) if as_json else "\n".join(lines_of(place)))


COMMAND = command
