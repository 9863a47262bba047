"""`ottla demo`: the main job on real input, from the flights to the table of why the group rebalanced."""

from pathlib import Path

import click


@click.command("demo")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-results"),
    show_default=True,
    metavar="DIR",
    help="Where the results go; an earlier demo's are replaced.",
)
@click.option(
    "--assignor",
    type=click.Choice(["range", "roundrobin", "cooperative-sticky"]),
    default="range",
    show_default=True,
    help="How the group shares out its partitions.",
)
def command(results: Path, assignor: str) -> None:
    """Replay 336,776 real flights through a consumer group that has a bad day, and explain it.

    A broker, a producer and up to three consumer processes run here: the group starts, grows, loses a frozen member and a slow one,
    shrinks, and gets more partitions. Then Spark makes a table of why the group rebalanced, and counts the flights per airline from the
    topic; the exit status is 1 when they are not those of the input. It takes a minute or two, and leaves nothing running.
    """
    from rich.console import Console

    from ottla.cli.flights import DemoFailedError
    from ottla.cli.flights.display import WIDTH_MAX
    from ottla.cli.flights.run import run

    console = Console()
    console.width = min(console.width, WIDTH_MAX) if console.is_terminal else WIDTH_MAX
    try:
        run(results, console=console, assignor=assignor)
    except DemoFailedError as failure:
        raise click.ClickException(str(failure)) from failure


COMMAND = command
