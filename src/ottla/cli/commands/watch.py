"""`ottla watch`: stores what explains rebalances, from now on, for `ottla diagnose` later."""

import sys

import click


@click.command("watch", short_help="Keep the history of groups that compaction removes.")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT,...", help="The brokers to connect to first; Ottla or Apache Kafka.")
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="The archive: an empty directory, or one to go on with.",
)
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Watch only this group; may be repeated.")
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=5.0, show_default=True, metavar="SECONDS", help="Time between two looks."
)
@click.option("--duration", type=click.FloatRange(min=0), metavar="SECONDS", help="End after this time; without it, on Ctrl-C or SIGTERM.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per look and one at the end.")
def command(
    bootstrap_server: str,
    output: str,
    groups: tuple[str, ...],
    command_config: str | None,
    interval: float,
    duration: float | None,
    as_json: bool,
) -> None:
    """Store the records of __consumer_offsets and the states of groups in DIR, from the first look on, for `ottla diagnose --archive DIR`.

    Kafka compacts __consumer_offsets: of each group only the last record stays, so the history of rebalances exists only for a program that
    reads it in time. Where the topic may not be read, groups are only polled. A run that was killed goes on without gaps or duplicates when
    it is started again (`ottla docs watch`). The exit status is 1 if the cluster does not respond at the start, or DIR cannot be written.
    """
    from ottla.cli.watch import WatchOptions, run

    options = WatchOptions(
        bootstrap_server=bootstrap_server,
        output=output,
        groups=groups or None,
        command_config=command_config,
        interval_s=interval,
        duration_s=duration,
        as_json=as_json,
    )
    sys.exit(run(options, out=sys.stdout, err=sys.stderr))


COMMAND = command
