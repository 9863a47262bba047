"""`ottla migrate SOURCE TARGET`: copies a topic into one with another number of partitions, with the offsets of its groups, with Spark."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

IDLE_S = 30.0

if TYPE_CHECKING:
    from ottla.spark.migration.job import Migrated, MigrationRun
    from ottla.spark.migration.values import Migration


def _check_cores(_context: click.Context, _option: click.Parameter, given: str) -> str:
    if given != "*" and not (given.isdecimal() and int(given)):
        raise click.BadParameter(f"{given} is not a number of cores: write for example 2, or * for all")
    return given


@click.command("migrate", short_help="Copy a topic into one with more or fewer partitions.")
@click.argument("source")
@click.argument("target")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT,...", help="The cluster of SOURCE; Ottla or Apache Kafka.")
@click.option("--to-bootstrap-server", metavar="HOST:PORT,...", help="The cluster of TARGET, where it is another one.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="The number of partitions of TARGET, where it does not exist yet.")
@click.option("--groups", multiple=True, metavar="GROUP,...", help="Carry over only these groups' offsets; may be repeated.")
@click.option("--no-groups", is_flag=True, help="Carry over no offsets of groups.")
@click.option(
    "--partitioner",
    type=click.Choice(["murmur2", "crc32"]),
    default="murmur2",
    show_default=True,
    help="How the producers of TARGET choose partitions: murmur2 (Java, kafka-python) or crc32 (librdkafka).",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be copied, and how many records each group would read again.")
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the groups' offsets in TARGET here, as CSV for --from-file of `ottla groups --reset-offsets`.",
)
@click.option("--follow", is_flag=True, help="Copy while producers and groups are running, until all of them have stopped.")
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="With --follow: end when SOURCE has had no new records, and the groups no members, for so long. [default: 30]",
)
@click.option("--command-config", metavar="FILE", help="Settings of the clients as a properties file (`ottla docs clients`).")
@click.option("--to-command-config", metavar="FILE", help="The same for the cluster of --to-bootstrap-server.")
@click.option(
    "--cores", default="*", show_default=True, metavar="N", callback=_check_cores, help="Cores of this machine to use, or * for all."
)
@click.option(
    "--max-records-per-batch",
    "records_max",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="Records that are read, sorted and written at once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was copied as JSON.")
def command(
    source: str,
    target: str,
    cores: str,
    dry_run: bool,
    plan_file: Path | None,
    follow: bool,
    idle_s: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Copy the records of SOURCE into TARGET, and carry the offsets of SOURCE's groups over.

    TARGET is created with SOURCE's settings if it does not exist. Records keep their timestamps and headers, and those with the same key
    their order. Each group continues in TARGET at the first record that it has not read: it misses no record. Stop producers and the
    groups' members first, or use --follow: then records are copied as they arrive, until you stop both. A run that was interrupted
    continues when the same command is run again. The exit status is 1 if the migration is not possible or fails; the reason is printed.
    """
    if options["no_groups"] and options["groups"]:
        raise click.UsageError("write --groups or --no-groups, not both")
    if options["to_command_config"] is not None and options["to_bootstrap_server"] is None:
        raise click.UsageError("--to-command-config belongs to --to-bootstrap-server")
    if dry_run and follow:
        raise click.UsageError("--dry-run shows what a copy would do now: leave out --follow")
    if idle_s is not None and not follow:
        raise click.UsageError("--idle belongs to --follow")
    if plan_file is not None and not plan_file.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no directory {plan_file.absolute().parent}", param_hint="--plan")
    from ottla.extras import require

    require("spark")
    from ottla.cli.migrate import MigrationOrder, document, execute, plan, summary

    order = MigrationOrder(migration=_migration(source, target, **options), cores=cores, what=f"migrating {source} to {target}")
    migrated = execute(order, _work(dry_run=dry_run, follow=follow, idle_s=idle_s or IDLE_S))
    if plan_file is not None:
        _write(plan_file, plan(target, migrated))
    if as_json:
        click.echo(json.dumps(document(source, target, migrated, is_forecast=dry_run), indent=2))
    else:
        click.echo(summary(source, target, migrated, is_forecast=dry_run))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written ({error.strerror}); the rest is done. Run the same command again") from error


def _work(*, dry_run: bool, follow: bool, idle_s: float) -> "Callable[[MigrationRun], Migrated]":
    if dry_run:
        return lambda run: run.forecast()
    return (lambda run: run.follow(idle_s)) if follow else (lambda run: run.copy())


def _migration(source: str, target: str, **options: Any) -> "Migration":
    """What the options say. Raises click.ClickException with a sentence."""
    from ottla.cli.migrate import cluster
    from ottla.spark.migration.values import Migration

    here = cluster(options["bootstrap_server"], options["command_config"], option="--bootstrap-server")
    there = here
    if options["to_bootstrap_server"] is not None:
        there = cluster(options["to_bootstrap_server"], options["to_command_config"], option="--to-bootstrap-server")
    names = tuple(name for given in options["groups"] for name in given.split(",") if name)
    return Migration(
        source_cluster=here,
        target_cluster=there,
        source=source,
        target=target,
        partitions=options["partitions"],
        groups=() if options["no_groups"] else names or None,
        partitioner=options["partitioner"],
        records_max=options["records_max"],
    )


COMMAND = command
