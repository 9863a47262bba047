"""`ottla demo`: the whole path on real input, from the flights to the table of rebalances."""

from pathlib import Path

import click

ASSIGNORS = {"classic": ("range", "roundrobin", "cooperative-sticky"), "consumer": ("uniform", "range")}
"""By group protocol; the first is the default."""


@click.command("demo", short_help="Replay real flights through a group with incidents.")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-results"),
    show_default=True,
    metavar="DIR",
    help="Directory of the results; those of an earlier demo are replaced.",
)
@click.option(
    "--assignor", help="The group's assignor: range (the default), roundrobin, cooperative-sticky; of the consumer protocol uniform, range."
)
@click.option(
    "--group-protocol",
    type=click.Choice(list(ASSIGNORS)),
    default="classic",
    show_default=True,
    help="The group's protocol (KIP-848: consumer).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON to stdout, and everything else to stderr.")
def command(results: Path, assignor: str | None, group_protocol: str, as_json: bool) -> None:
    """Replay 336,776 real flights through a consumer group with several incidents, and explain its rebalances.

    It runs a broker, a producer and up to three consumer processes: the group starts, grows, loses a suspended member and a slow one,
    shrinks, and gets more partitions. Then Spark computes a table of the rebalances, and counts the flights per airline in the topic; the
    exit status is 1 if the counts differ from the input. It takes a minute or two, and leaves no process running.
    """
    if assignor is not None and assignor not in ASSIGNORS[group_protocol]:
        raise click.UsageError(f"{assignor} is no assignor of the {group_protocol} protocol here: {', '.join(ASSIGNORS[group_protocol])}")

    from rich.console import Console

    from ottla.cli.demo import DemoFailedError
    from ottla.cli.demo.demo_run import run
    from ottla.cli.demo.results import WIDTH_MAX, Results

    console = Console(stderr=as_json)
    console.width = min(console.width, WIDTH_MAX) if console.is_terminal else WIDTH_MAX
    try:
        run(results, console=console, assignor=assignor or ASSIGNORS[group_protocol][0], protocol=group_protocol)
    except DemoFailedError as failure:
        raise click.ClickException(str(failure)) from failure
    if as_json:
        click.echo(Results(results).summary.read_text(), nl=False)


COMMAND = command
