"""`ottla diagnose`: why groups rebalanced, from whatever evidence there is, and which setting would have avoided it."""

import sys
import time

import click


@click.command("diagnose")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Read the cluster's own topics; Ottla or Apache Kafka.")
@click.option("--command-config", metavar="FILE", help="Settings of the client as a properties file (`ottla docs clients`).")
@click.option("--broker-log", "broker_logs", multiple=True, metavar="FILE", help="A broker's log, also gzip or rotated; may be repeated.")
@click.option(
    "--offsets-topic",
    "offsets_topics",
    multiple=True,
    metavar="DIR",
    help="A Kafka data directory, or one with __consumer_offsets-N folders; may be repeated.",
)
@click.option("--client-log", "client_logs", multiple=True, metavar="FILE", help="A consumer's log, of any client; may be repeated.")
@click.option("--archive", "archives", multiple=True, metavar="DIR", help="What `ottla watch` stored; may be repeated.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@click.option("--since", metavar="TIME", help="Only rebalances from then on: 2026-11-22T14:31, 14:31, or how long ago (30m, 2h, 3d).")
@click.option("--until", metavar="TIME", help="Only rebalances before then.")
@click.option("--utc", is_flag=True, help="Times are UTC; without it, of this machine's zone.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per rebalance and line.")
def command(
    bootstrap_server: str | None,
    command_config: str | None,
    broker_logs: tuple[str, ...],
    offsets_topics: tuple[str, ...],
    client_logs: tuple[str, ...],
    archives: tuple[str, ...],
    groups: tuple[str, ...],
    since: str | None,
    until: str | None,
    utc: bool,
    as_json: bool,
) -> None:
    """Say of each rebalance why it happened, how sure that is, and which setting would have avoided it.

    Sources may be combined: each makes the verdicts sharper. FILE and DIR may be patterns, such as 'logs/server.log*'. On a cluster it
    reads __ottla_group_events, which Ottla writes, and __consumer_offsets. The exit status is 1 if no rebalance is found, or a source
    cannot be read; the reason is printed.
    """
    from datetime import UTC

    from ottla.cli.diagnose.gathering import SourceOptions
    from ottla.cli.diagnose.run import DiagnoseOptions, run
    from ottla.cli.diagnose.time_bounds import parse_time_ms
    from ottla.cli.diagnose.time_zones import machine_zone

    zone = UTC if utc else machine_zone()
    now_ms = time.time_ns() // 1_000_000
    bounds = {}
    for name, text in (("--since", since), ("--until", until)):
        try:
            bounds[name] = None if text is None else parse_time_ms(text, now_ms=now_ms, zone=zone)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=name) from error
    sources = SourceOptions(
        bootstrap_server=bootstrap_server,
        command_config=command_config,
        broker_logs=broker_logs,
        client_logs=client_logs,
        offsets_topics=offsets_topics,
        archives=archives,
        groups=groups,
    )
    options = DiagnoseOptions(sources=sources, since_ms=bounds["--since"], until_ms=bounds["--until"], as_json=as_json)
    sys.exit(run(options, zone=zone, out=sys.stdout, err=sys.stderr))


COMMAND = command
