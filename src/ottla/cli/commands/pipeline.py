"""`ottla pipeline`: the pipelines that Ottla has, and one of them run on a cluster by Spark, its tables kept as Parquet."""

from pathlib import Path

import click

_SECONDS_DEFAULT = 10


@click.group("pipeline")
def command() -> None:
    """Make tables of what a cluster's topics say about its groups, by Spark."""


@command.command("list")
def list_pipelines() -> None:
    """The pipelines, with the tables that they make."""
    from ottla.spark.pipelines import pipelines

    for name, pipeline in pipelines().items():
        click.echo(f"{name}: {', '.join(pipeline.outputs)}")


@command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """The columns of a pipeline's tables; `ottla docs pipelines` says what they mean."""
    from ottla.cli.pipeline_run import find

    for table, schema in find(name).outputs.items():
        click.echo(f"{table}\n" + "".join(f"  {field.name} {field.dataType.simpleString()}\n" for field in schema.fields))


@command.command("run")
@click.argument("name")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT", help="A broker, or several with commas; Ottla or Apache Kafka.")
@click.option(
    "--output", required=True, metavar="DIR", help="Where the tables go, a folder each: a path, or an address that Spark can write."
)
@click.option("--stream", "mode", flag_value="stream", help="Go on with what comes, until Ctrl-C.")
@click.option("--available-now", "mode", flag_value="available-now", help="Go on from the last such run up to what is there now.")
@click.option(
    "--every", default=_SECONDS_DEFAULT, show_default=True, metavar="SECONDS", type=click.IntRange(1), help="With --stream: how often."
)
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="For lag: this topic's timestamps tell its lag over time; may be repeated."
)
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A client's settings, such as its security, as Kafka's tools take them.",
)
@click.option("--cores", default="*", show_default=True, metavar="N", help="Cores of this machine to use.")
@click.option("--json", "as_json", is_flag=True, help="For machines: what was written, as JSON.")
def run(
    name: str,
    bootstrap_server: str,
    output: str,
    mode: str | None,
    every: int,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    command_config: Path | None,
    cores: str,
    as_json: bool,
) -> None:
    """Run the pipeline NAME on a cluster and keep its tables in DIR.

    Without --stream and --available-now it reads everything that is there, and replaces the tables; with them it goes on where the last
    such run in DIR ended. The exit status is 1 when something is in the way; then it says what.
    """
    from ottla.cli.groups.client_config import client_properties
    from ottla.cli.pipeline_run import Order, execute, find
    from ottla.core.extras import require

    require("spark")
    pipeline = find(name)
    if topics and "topic_records" not in pipeline.inputs:
        raise click.UsageError(f"--topic means nothing to the pipeline {name}")
    properties = client_properties(command_config.read_text("latin-1"), "isolation.level") if command_config else {}
    order = Order(
        name=name,
        pipeline=pipeline,
        bootstrap_servers=bootstrap_server,
        properties=properties,
        output=output,
        mode=mode or "batch",
        every_s=every,
        groups=groups,
        topics=topics,
        cores=cores,
        as_json=as_json,
    )
    execute(order)


COMMAND = command
