"""`ottla advise`: whether a consumer's settings will make it leave its group, before they do."""

import json
import re
from pathlib import Path

import click

from ottla.cli.properties import parse_properties
from ottla.core.config import INT_MAX
from ottla.core.diagnosis.advice import Advice, ConsumerSettings, advise, idle_or_uneven, record_budget_ms

SETTINGS = {
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "max.poll.records": "max_poll_records",
}
"""What it judges; a file may hold other settings too."""
WORK_MS_MAX = 7 * 24 * 3_600_000
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def parse_duration(text: str) -> int:
    """The milliseconds of `6m`, `90s` or `250ms`. Raises click.BadParameter."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or match[2] not in UNITS_MS:
        raise click.BadParameter(f"{text!r}: write a number with ms, s, m or h, for example 6m")
    milliseconds = float(match[1]) * UNITS_MS[match[2]]
    if milliseconds > WORK_MS_MAX:
        raise click.BadParameter(f"{text!r}: write at most 168h; max.poll.interval.ms itself ends at 24 days")
    return round(milliseconds)


@click.command("advise", short_help="Check whether settings will make a consumer leave.")
@click.option("--properties", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="A consumer.properties.")
@click.option("--set", "given", multiple=True, metavar="K=V", help="A consumer setting by its Kafka name; overrides the file's.")
@click.option("--work-per-poll", type=parse_duration, metavar="TIME", help="Longest processing time of one poll: 6m, 90s, 250ms.")
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="Partitions of the group's topics; with --members.")
@click.option("--members", type=click.IntRange(1), metavar="N", help="Members of the group; with --partitions.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    properties: Path | None, given: tuple[str, ...], work_per_poll: int | None, partitions: int | None, members: int | None, as_json: bool
) -> None:
    """Check whether a consumer's settings will make it leave its group, and print the values to set.

    Settings that are not given have the defaults of Kafka's Java client. The exit status is 1 if a setting should be changed, else 0.
    """
    if (partitions is None) != (members is None):
        raise click.UsageError("--partitions and --members go together")
    settings = _settings(properties, given)
    found = advise(settings, work_per_poll_ms=work_per_poll)
    uneven = idle_or_uneven(partitions, members) if partitions and members else None
    budget_ms = record_budget_ms(settings)
    if as_json:
        click.echo(json.dumps({"advice": [_to_json(each) for each in found], "record_budget_ms": budget_ms, "uneven": uneven}, indent=2))
    else:
        for each in found:
            click.echo(each.sentence)
        click.echo(
            f"{settings.max_poll_interval_ms} ms / {settings.max_poll_records} records: "
            f"{budget_ms} ms a record before a full poll makes the member leave."
        )
        if uneven is not None:
            click.echo(uneven)
    if found:
        raise SystemExit(1)


def _settings(properties: Path | None, given: tuple[str, ...]) -> ConsumerSettings:
    texts = parse_properties(properties.read_text("latin-1")) if properties else {}
    for setting in given:
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals or name not in SETTINGS:
            raise click.BadParameter(f"{setting!r}: write one of {', '.join(SETTINGS)} as NAME=VALUE", param_hint="--set")
        texts[name] = text
    values: dict[str, int] = {}
    for name in SETTINGS.keys() & texts.keys():
        text = texts[name].strip()
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(INT_MAX))
        if not is_number or not 0 < int(text) <= INT_MAX:
            raise click.BadParameter(f"{name}={text}: write a whole number from 1 to {INT_MAX}", param_hint="--set or --properties")
        values[SETTINGS[name]] = int(text)
    return ConsumerSettings(**values)


def _to_json(advice: Advice) -> dict[str, object]:
    return {"setting": advice.setting, "value": advice.value, "suggested": advice.suggested, "why": advice.sentence}


COMMAND = command
