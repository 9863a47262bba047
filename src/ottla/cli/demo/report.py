"""What the demo says at the end: its rebalances as sentences, lag as a chart, and the page with all of it."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ottla.cli.demo.analysis import LagRow, draw, spans
from ottla.cli.demo.scene import GROUP, TOPIC
from ottla.console.report.report import Report
from ottla.groups.events import GroupEvent
from ottla.history.group_history import Rebalance
from ottla.history.story.arrays import LagHistory
from ottla.history.story.sentences import sentence_of
from ottla.history.verdicts.verdict import Confidence, Verdict
from ottla.protocol.model import TopicPartition

_PLANNED = {True: "planned", False: "not planned", None: "planned or not is unknown"}


def sentence(rebalance: Rebalance) -> str:
    """A rebalance in words."""
    return f"{sentence_of(rebalance.verdict)} {verdict_text(rebalance.verdict).capitalize()}. {_cost(rebalance)}"


def verdict_text(verdict: Verdict) -> str:
    """Planned or not, with the confidence where it is not high."""
    planned = _PLANNED[verdict.planned]
    is_certain = verdict.confidence is Confidence.HIGH or verdict.planned is None
    return planned if is_certain else f"{planned}, {verdict.confidence.name.lower()} confidence"


def _cost(rebalance: Rebalance) -> str:
    if rebalance.outcome == "emptied":
        return "No member is left."
    if rebalance.outcome != "completed":
        return f"No assignments were made ({rebalance.outcome})."
    moved = f"{rebalance.partitions_moved} of {rebalance.partitions_assigned}" if rebalance.partitions_moved else "no"
    return f"{(rebalance.join_ms or 0) + (rebalance.sync_ms or 0)} ms, {moved} partitions moved."


STEP_MS: Final = 250


def report_page(events: Iterable[GroupEvent], lag: Sequence[LagRow]) -> str:
    """The page of the demo's group."""
    of_group = [event for event in events if event.group == GROUP]
    history = {} if not lag else {GROUP: lag_history(lag)}
    return Report.of_events(of_group, lag=history, note="ottla demo: the flights of 2013 through a consumer group").html()


def lag_history(lag: Sequence[LagRow]) -> LagHistory:
    """The greatest lag of each partition in each quarter of a second."""
    from_ms, to_ms = min(row.at_ms for row in lag), max(row.at_ms for row in lag)
    count = (to_ms - from_ms) // STEP_MS + 1
    found = spans(lag, from_ms, from_ms + count * STEP_MS, count)
    rows = {TopicPartition(TOPIC, partition): [-1 if value is None else value for value in values] for partition, values in found.items()}
    return LagHistory(from_ms, STEP_MS, rows)


_RESULTS = {
    "report.html": "why the group rebalanced: members, causes, lag over time, as a page",
    "rebalances/": "the rebalance table, Parquet",
    "lag/, lag_history/": "the lag at the end and over time, Parquet",
    "flights-per-airline/": "the counts, Parquet",
    "broker/": "the broker's data in Kafka's own files, a folder a partition",
    "consumer-*.log, *.json": "what each consumer saw and did",
    "broker.log, spark.log": "what the broker and Spark had to say",
    "summary.json": "all figures of this run, for programs",
}
_LEGEND = (
    "moved: partitions with another owner than before, of all; new: those without an owner before; join ms: from the "
    "trigger until all members had joined; sync ms: from then until the assignments were stored; planned: whether it was intended, and "
    "how sure the events make us."
)
_NEXT = {
    "ottla demo --assignor cooperative-sticky": "the same day with another assignor: compare what moved",
    "ottla broker --data {directory}/broker": "the same broker again, on port 9092: any Kafka client can read its topics",
    "less {directory}/consumer-2.log": "the day as the frozen consumer saw it",
    "ottla docs demo": "what each incident shows, and which setting would have helped",
}
_PICTURE_WIDTH_MAX = 80
_YES_OR_NO = {True: "yes", False: "no", None: "?"}


def show_rebalances(console: Console, rows: Sequence[Mapping[str, Any]], rebalances: Iterable[Rebalance]) -> None:
    """The table, then each rebalance in words."""
    console.print("\n[bold]Why the group rebalanced[/] (Spark, pipeline rebalances)\n")
    table = _table("gen>", "started", "trigger", "client", "members", "moved>", "new>", "join ms>", "sync ms>", "planned")
    for row in rows:
        table.add_row(
            _known(row["generation"]),
            f"{row['started_at']:%H:%M:%S}",
            "\n+".join([row["trigger"] or "?", *row["coalesced"]]),
            row["client_id"] or "?",
            f"{_known(row['members_before'])} → {_known(row['members_after'])}",
            f"{row['partitions_moved']}/{row['partitions_assigned']}" if row["outcome"] == "completed" else row["outcome"],
            _known(row["partitions_new"], none=""),
            _known(row["join_ms"], none=""),
            _known(row["sync_ms"], none=""),
            f"{_YES_OR_NO[row['planned']]} ({row['confidence']})",
        )
    console.print(table, highlight=False)
    console.print(f"\n[dim]{textwrap.fill(_LEGEND, console.width)}[/]", highlight=False)
    console.print("\n[bold]In words[/]\n")
    for rebalance in rebalances:
        text = textwrap.fill(sentence(rebalance), console.width - 5, subsequent_indent=" " * 5)
        console.print(f"{_known(rebalance.generation):>3}  {text}", markup=False, highlight=False)


def show_lag(console: Console, rows: Sequence[LagRow], rebalances: Sequence[Mapping[str, Any]], *, starts_ms: int, ends_ms: int) -> None:
    """The group's lag over time with the rebalances below it, then each partition's."""
    console.print("\n[bold]How far behind the group was[/] (Spark, pipeline lag: messages between its commits and the ends)\n")
    began = [(row["generation"], round(row["started_at"].timestamp() * 1000)) for row in rebalances if row["generation"] is not None]
    for line in draw(rows, began, starts_ms=starts_ms, ends_ms=ends_ms, width=min(console.width, _PICTURE_WIDTH_MAX)):
        console.print(line, markup=False, highlight=False)
    seconds = (ends_ms - starts_ms) / 1000
    text = (
        f"{seconds:.0f} s, until the rest of the year came at full speed. Above: the whole group, and where each generation's rebalance "
        "began. Below: its partitions, all to one scale, with the greatest lag of each; blank: none, or nothing committed yet."
    )
    console.print(f"\n[dim]{textwrap.fill(text, console.width)}[/]", highlight=False)


def _known(value: object, *, none: str = "?") -> str:
    return none if value is None else str(value)


def _table(*columns: str) -> Table:
    """A table of columns, those with a ">" at the end to the right."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column.removesuffix(">"), justify="right" if column.endswith(">") else "left")
    return table


def show_airlines(console: Console, airlines: Mapping[str, str], counted: Mapping[str, int], expected: Mapping[str, int]) -> None:
    """Every airline with its flights in the topic, beside those in the input where they differ."""
    console.print("\n[bold]Flights per airline[/] (Spark, counted from the topic)\n")
    table = _table("airline", "name", "flights>", "as in the input")
    for code in sorted(counted.keys() | expected.keys(), key=lambda code: (-expected.get(code, 0), code)):
        found, wanted = counted.get(code, 0), expected.get(code, 0)
        table.add_row(code, airlines.get(code, "?"), f"{found:,}", "yes" if found == wanted else f"[red]no: {wanted:,}[/]")
    table.add_section()
    same = sum(counted.values()) == sum(expected.values())
    table.add_row("all", "", f"{sum(counted.values()):,}", "yes" if same else f"[red]no: {sum(expected.values()):,}[/]")
    console.print(table, highlight=False)


def show_work(console: Console, by_consumer: Mapping[str, Mapping[str, int]], flights_total: int) -> None:
    """What the consumers did, with what they did more than once."""
    again = sum(counts["flights"] for counts in by_consumer.values()) - flights_total
    refused = sum(counts["commits_refused"] for counts in by_consumer.values())
    shares = ", ".join(f"{name}: {item['flights']:,}" for name, item in sorted(by_consumer.items()))
    text = (
        f"The group committed all {flights_total:,} flights ({shares}). {again:,} were worked on more than once and {refused} commits were "
        "refused: that is at-least-once, when a member loses its partitions in the middle of its work."
    )
    console.print("\n" + textwrap.fill(text, console.width), highlight=False)


def show_results(console: Console, directory: Path, seconds: float) -> None:
    """Where the results lie, and what to try next."""
    console.print(f"\n[bold]Done in {seconds:.0f} s.[/] The results are in {directory}/\n", highlight=False)
    for name, meaning in _RESULTS.items():
        console.print(f"  {name:<24}{meaning}", highlight=False)
    console.print("\n[bold]Try next[/]\n")
    for command, meaning in _NEXT.items():
        console.print(f"  {command.format(directory=directory)}", highlight=False, soft_wrap=True)
        console.print(f"      {meaning}", highlight=False)
    console.print("\n[bold]The report[/]: open it in a browser\n")
    console.print(f"  {directory / 'report.html'}", highlight=False, soft_wrap=True)
