"""`ottla assign`: what each assignor gives the members of a group, and what moves between two states."""

import sys
from pathlib import Path

import click

from ottla.cli.options import AssignorType
from ottla.groups.assignors import assignors
from ottla.groups.assignors._legacy import LEGACY_ASSIGNORS

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("assign", short_help="Show what each assignor gives a group's members.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="The group's cluster; Ottla or Apache Kafka.")
@click.option("--group", metavar="GROUP", help="Take members, topics and assignment of this group; with --bootstrap-server.")
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
@click.option("--file", "files", type=FILE, multiple=True, metavar="FILE", help="Members and topics as JSON; twice: before and after.")
@click.option("--assignor", "names", type=AssignorType(LEGACY_ASSIGNORS), multiple=True, help="An assignor; may be repeated. Default: all.")
@click.option("--from-assignment", is_flag=True, help="With two states: move from the assignment that the first one has now.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (`ottla docs assignors`).")
def command(
    bootstrap_server: str | None,
    group: str | None,
    command_config: str | None,
    files: tuple[Path, ...],
    names: tuple[str, ...],
    from_assignment: bool,
    as_json: bool,
) -> None:
    """Show what each assignor gives the members of a group, and how many partitions move.

    The members and topics are those of a group (--group) or of a file (`ottla docs assignors` shows its form; --json prints it). With
    two states, a group and a file or two files, each assignor first assigns the partitions of the first, and what moves from there to
    the second is shown. Your own assignor is named as module:Class. Nothing is changed in the cluster. The exit status is 1 if a
    state cannot be read.
    """
    from ottla.cli.assign import AssignOptions, run

    if (group is None) != (bootstrap_server is None):
        raise click.UsageError("--group and --bootstrap-server go together")
    states = len(files) + (group is not None)
    if not 1 <= states <= 2:
        raise click.UsageError("give a group (--group with --bootstrap-server), a file (--file), or two of them: before and after")
    if from_assignment and states == 1:
        raise click.UsageError("--from-assignment needs two states; moves of a single one are always from its present assignment")
    options = AssignOptions(
        group=group,
        bootstrap_server=bootstrap_server,
        command_config=command_config,
        files=files,
        assignors=names or sorted(assignors()),
        from_assignment=from_assignment,
        as_json=as_json,
    )
    sys.exit(run(options, out=sys.stdout, err=sys.stderr))


COMMAND = command
