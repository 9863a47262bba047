"""`ottla pipeline`: lists Ottla's pipelines, and runs one on a cluster with Spark, which stores its tables."""

import json
from pathlib import Path
from typing import Any

import click

_SECONDS_DEFAULT = 10


@click.group("pipeline", short_help="Make tables about groups, with Spark.")
def command() -> None:
    """Compute tables about a cluster's groups from its topics, with Spark."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_pipelines(as_json: bool) -> None:
    """List the pipelines and their tables."""
    from ottla.spark.pipelines import pipelines

    if as_json:
        click.echo(json.dumps({name: list(pipeline.outputs) for name, pipeline in pipelines().items()}, indent=2))
        return
    for name, pipeline in pipelines().items():
        click.echo(f"{name}: {', '.join(pipeline.outputs)}")


@command.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print the schemas as JSON, in Spark's form.")
def show(name: str, as_json: bool) -> None:
    """Print the columns of a pipeline's tables; `ottla docs pipelines` describes them."""
    from ottla.cli.pipeline import find

    outputs = find(name).outputs
    if as_json:
        click.echo(json.dumps({table: schema.jsonValue() for table, schema in outputs.items()}, indent=2))
        return
    for table, schema in outputs.items():
        click.echo(f"{table}\n" + "".join(f"  {field.name} {field.dataType.simpleString()}\n" for field in schema.fields))


@command.command("run")
@click.argument("name")
@click.option(
    "--bootstrap-server",
    "bootstrap_servers",
    required=True,
    metavar="HOST:PORT",
    help="A broker, or several with commas; Ottla or Apache Kafka.",
)
@click.option("--output", metavar="DIR", help="Directory of the tables, a folder each: a path, or a URL that Spark can write to.")
@click.option(
    "--table",
    metavar="CATALOG.SCHEMA.TABLE",
    help="Instead of --output: a table of a catalog, for the pipeline's first table; the names of its others begin with it.",
)
@click.option(
    "--checkpoint", metavar="DIR", help="With --table: directory of the progress of --stream and --available-now, the same for every run."
)
@click.option(
    "--format",
    "table_format",
    default="parquet",
    show_default=True,
    metavar="FORMAT",
    help="Format of new tables: parquet, orc, or another that Spark has, such as delta or iceberg.",
)
@click.option("--stream", "mode", flag_value="stream", help="Process new records as they arrive, until Ctrl-C.")
@click.option("--available-now", "mode", flag_value="available-now", help="Continue from the last such run up to the current end.")
@click.option(
    "--every",
    "every_s",
    default=_SECONDS_DEFAULT,
    show_default=True,
    metavar="SECONDS",
    type=click.IntRange(1),
    help="With --stream: interval.",
)
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="For lag: this topic's timestamps show its lag over time; may be repeated."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the pipeline, such as intervals=15 of group_status; may be repeated.",
)
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A properties file with client settings, such as security, as for Kafka's tools.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    metavar="MS",
    type=click.IntRange(1),
    help="Timeout of each request to the cluster. [default: 60000, and 5000 to reach a first broker]",
)
@click.option("--limit", default=20, show_default=True, metavar="N", type=click.IntRange(1), help="Rows to show at the end.")
@click.option("--since", metavar="TIME", help="Show rows from then on only: 2026-11-22T14:31, 14:31, or how long ago (30m, 2h, 3d).")
@click.option("--cores", default="*", show_default=True, metavar="N", help="Cores of this machine to use.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def run(
    name: str,
    mode: str | None,
    output: str | None,
    table: str | None,
    checkpoint: str | None,
    settings: tuple[str, ...],
    command_config: Path | None,
    timeout_ms: int | None,
    since: str | None,
    **options: Any,
) -> None:
    """Run the pipeline NAME on a cluster and write its tables: to a directory, or into a catalog.

    Without --stream and --available-now it reads all records, and replaces the tables; with them it continues where the last such run
    ended. The exit status is 1 if the run is not possible; the reason is printed.
    """
    from ottla.cli.clusters import client_properties
    from ottla.cli.pipeline import PipelineOrder, TablePlace, configured, execute, find
    from ottla.cli.source_options import parse_bound
    from ottla.extras import require
    from ottla.history.times import machine_zone

    require("spark")
    pipeline = configured(find(name), name, settings)
    if options["topics"] and "topic_records" not in pipeline.inputs:
        raise click.UsageError(f"--topic means nothing to the pipeline {name}")
    if (output is None) == (table is None):
        raise click.UsageError("give either --output, a directory for the tables, or --table, a name in a catalog")
    if checkpoint is not None and table is None:
        raise click.UsageError("--checkpoint belongs to --table: with --output, the progress is beside the tables")
    if table is not None and mode is not None and checkpoint is None:
        raise click.UsageError(f"--{mode} with --table needs --checkpoint, a directory for its progress: the same for every run")
    if since is not None and pipeline.time is None:
        raise click.UsageError(f"--since means nothing to the pipeline {name}: its rows have no time")
    since_ms = parse_bound("--since", since, zone=machine_zone())
    properties = client_properties(command_config.read_text("latin-1"), "isolation.level") if command_config else {}
    if timeout_ms is not None:
        properties["default.api.timeout.ms"] = str(timeout_ms)
    place = TablePlace(directory=output, table=table, format=options.pop("table_format"), checkpoints=checkpoint)
    execute(
        PipelineOrder(name=name, pipeline=pipeline, properties=properties, mode=mode or "batch", since_ms=since_ms, place=place, **options)
    )


COMMAND = command
