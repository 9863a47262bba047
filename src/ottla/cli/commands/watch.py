"""`ottla watch`: stores what explains rebalances, from now on, for `ottla diagnose` later, serves metrics and passes alerts on."""

import sys
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ottla.cli.alert_actions import Action
    from ottla.history.alerts import Rule


class RuleType(click.ParamType):  # type: ignore[type-arg]
    """A rule for alerts."""

    name = "rule"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Rule":
        """The rule; a usage error for a text that is none."""
        from ottla.history.alerts import parse_rule

        try:
            return parse_rule(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """How rules begin, and the kinds of incidents."""
        from ottla.history.incidents import IncidentKind

        begins = (
            "lag > 10000 for 60s",
            "unplanned rebalances > 3 in 10m",
            "no members for 30s",
            "stuck for 2m",
            "unreachable for 1m",
            "incident",
        )
        return [CompletionItem(each) for each in (*begins, *(f"incident {kind}" for kind in IncidentKind)) if each.startswith(incomplete)]


@click.command("watch", short_help="Keep the history of groups; metrics, alerts.")
@click.option(
    "--bootstrap-server",
    "bootstrap_servers",
    required=True,
    multiple=True,
    metavar="[NAME=]HOST:PORT,...",
    help="The brokers to connect to first; Ottla or Apache Kafka. Repeated with a NAME for each of several clusters.",
)
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="The archive: an empty directory, or one to go on with. Of a cluster with a NAME: DIR/NAME.",
)
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Watch only this group; may be repeated.")
@click.option(
    "--command-config",
    "command_configs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Settings of the client as a properties file (`ottla docs clients`), of all clusters or of one.",
)
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=5.0, show_default=True, metavar="SECONDS", help="Time between two looks."
)
@click.option("--duration", type=click.FloatRange(min=0), metavar="SECONDS", help="End after this time; without it, on Ctrl-C or SIGTERM.")
@click.option(
    "--retention", multiple=True, metavar="TIME|SIZE", help="Remove what is older (7d), or what is over a size (10GB); may be given twice."
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics (Prometheus) there; port 0 takes any free one.")
@click.option(
    "--alert",
    "rules",
    multiple=True,
    type=RuleType(),
    metavar="RULE",
    help='When to call, such as "lag > 10000 for 60s of pay-*" (`ottla docs watch`); may be repeated.',
)
@click.option("--exec", "commands", multiple=True, metavar="CMD", help="Run this for each alert, without a shell: JSON on standard input.")
@click.option("--webhook", "urls", multiple=True, metavar="URL", help="Send each alert there, as JSON with POST.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per look and alert, and one at the end.")
def command(
    bootstrap_servers: tuple[str, ...],
    output: str,
    groups: tuple[str, ...],
    command_configs: tuple[str, ...],
    interval: float,
    duration: float | None,
    retention: tuple[str, ...],
    metrics: str | None,
    rules: "tuple[Rule, ...]",
    commands: tuple[str, ...],
    urls: tuple[str, ...],
    as_json: bool,
) -> None:
    """Store the records of __consumer_offsets and the states of groups in DIR, from the first look on, for `ottla diagnose --archive DIR`.

    Kafka compacts __consumer_offsets: of each group only the last record stays, so the history of rebalances exists only for a program that
    reads it in time. Where the topic may not be read, groups are only polled. A run that was killed goes on without gaps or duplicates when
    it is started again (`ottla docs watch`).

    With --metrics it is an exporter for any cluster, with --alert it calls when a rule holds, and once more when it ends. The exit status
    is 1 if DIR cannot be written, or if one cluster alone, without --metrics and --alert, does not respond at the start.
    """
    from ottla.cli.watch import WatchOptions, run
    from ottla.config.listeners import parse_listen
    from ottla.history.sources.archive_retention import parse_retention

    try:
        options = WatchOptions(
            bootstrap_servers=bootstrap_servers,
            output=output,
            groups=groups or None,
            command_configs=command_configs,
            interval_s=interval,
            duration_s=duration,
            as_json=as_json,
            retention=parse_retention(retention),
            metrics=None if metrics is None else parse_listen(metrics),
            rules=rules,
            actions=_actions(commands, urls),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if options.actions and not rules:
        raise click.UsageError("--exec and --webhook need a rule: give --alert, too")
    sys.exit(run(options, out=sys.stdout, err=sys.stderr))


def _actions(commands: tuple[str, ...], urls: tuple[str, ...]) -> "tuple[Action, ...]":
    if not commands and not urls:
        return ()
    from ottla.cli.alert_actions import Command, Webhook

    return (*map(Command, commands), *map(Webhook, urls))


COMMAND = command
