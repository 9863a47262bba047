"""`ottla produce`: writes lines as records, on Ottla and on Apache Kafka."""

import sys
from typing import Any, BinaryIO

import click

from ottla.cli.options import SettingType


@click.command("produce", short_help="Write lines as records.")
@click.argument("file", type=click.File("rb"), default="-", metavar="[FILE]")
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT,...", help="The brokers to connect to first; Ottla or Apache Kafka.")
@click.option("--topic", required=True, metavar="TOPIC", help="Where to write.")
@click.option("--key-delimiter", metavar="TEXT", help="A line is KEY TEXT VALUE. Without it, records have no keys.")
@click.option(
    "--header", "headers", multiple=True, type=SettingType("source=import"), metavar="NAME=VALUE", help="For each record; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Lines are JSON objects, as `ottla consume --json` prints them.")
@click.option("--null", metavar="TEXT", help="Keys and values that are this text are null.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Write to this partition. Default: by the key, as Java's producers.")
@click.option("--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), help="Compress batches. Default: none.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="A record that is not acknowledged within this time has failed.",
)
@click.option(
    "--config", multiple=True, type=SettingType("linger.ms=50"), metavar="NAME=VALUE", help="A property of librdkafka; may be repeated."
)
@click.option("--command-config", metavar="FILE", help="Security settings as a properties file (`ottla docs clients`).")
def command(file: BinaryIO, bootstrap_server: str, topic: str, **given: Any) -> None:
    """Write each line of FILE, or of stdin, as a record, and print how many were acknowledged.

    With --json, key, value, headers and timestamp are those of the object; its topic, partition and offset are passed over. Ctrl-C ends
    the reading, and what was read is written. It needs confluent-kafka. The exit status is 1 if a record was not acknowledged, or if a
    line makes no sense, which ends the reading.
    """
    from ottla.extras import require

    require("spark", "confluent_kafka")
    from ottla.cli.produce.produce import LineFormat, ProduceOptions, ProducerTarget, run

    if given["as_json"] and (given["key_delimiter"] is not None or given["null"] is not None):
        raise click.UsageError("--json says itself what is a key and what is null: leave out --key-delimiter and --null")
    if given["key_delimiter"] == "":
        raise click.BadParameter("it must not be empty", param_hint="--key-delimiter")
    form = LineFormat(
        key_delimiter=_bytes(given["key_delimiter"]),
        null=_bytes(given["null"]),
        is_json=given["as_json"],
        headers=[(name, text.encode()) for name, text in given["headers"]],
    )
    target = ProducerTarget(
        bootstrap_server=bootstrap_server,
        timeout_s=given["timeout_s"],
        compression=given["compression"],
        command_config=given["command_config"],
        config=given["config"],
    )
    options = ProduceOptions(target=target, topic=topic, form=form, partition=given["partition"])
    sys.exit(run(options, file, out=sys.stdout, err=sys.stderr, shows_progress=not file.isatty()))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


COMMAND = command
