"""`ottla coordinator`: which broker serves a group, so that the right broker's log is read."""

import json
import sys

import click


@click.command("coordinator", short_help="Print the broker that coordinates a group.")
@click.argument("group")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Get the partition's leader and the partition count from this cluster.")
@click.option(
    "--partitions",
    type=click.IntRange(1, 2**31 - 1),
    metavar="N",
    help="Partition count (default: the cluster's; 50 without a cluster).",
)
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
@click.option("--timeout", "timeout_ms", type=click.IntRange(min=1), default=30_000, metavar="MS", help="Timeout of each request (30000).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    group: str, bootstrap_server: str | None, partitions: int | None, command_config: str | None, timeout_ms: int, as_json: bool
) -> None:
    """Print the partition of __consumer_offsets that GROUP belongs to, and the broker that leads it: the group's coordinator.

    The partition depends only on the group's name and the partition count, so the group need not exist. The exit status is 1 if the
    cluster does not respond, or does not have the partition.
    """
    from ottla.cli.clusters import CommandFailed
    from ottla.cli.coordinator import find_place, lines_of

    try:
        place = find_place(
            group, bootstrap_server=bootstrap_server, partitions=partitions, command_config=command_config, timeout_ms=timeout_ms
        )
    except CommandFailed as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(place.document(), indent=2) if as_json else "\n".join(lines_of(place)))


COMMAND = command
