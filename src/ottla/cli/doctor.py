"""The report of `ottla doctor`, from a broker's /health or from a directory's files, printed as sentences and a table.

A report is the JSON of `HealthSnapshot.to_json` in both cases. log/cleaner/health.py decides
what is unhealthy.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.log.cleaner.health import CleanerFacts, CleanerState, findings, size_text
from ottla.protocol.errors import StorageError

TIMEOUT_S: Final = 10
ANSWER_BYTES_MAX: Final = 16 << 20
TOPICS_MAX: Final = 40
NOT_INSPECTED: Final = "Consumer groups were not inspected: `ottla groups --describe --all-groups`, `ottla diagnose`."
_GROWING_BYTES_PER_HOUR: Final = 1_000_000
_NAME_WIDTH_MIN: Final = 18
_FIGURES_WIDTH: Final = 58
"""What the other columns take at most."""


class HealthUnknownError(Exception):
    """There is nothing to inspect; the text says why, and what to do."""


def ask_broker(address: str) -> dict[str, Any]:
    """The report of a running broker; `address` is HOST:PORT or a URL of its /metrics or /health."""
    base = address if "://" in address else f"http://{address}"
    url = base.removesuffix("/").removesuffix("/metrics").removesuffix("/health") + "/health"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            body = answer.read(ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        if error.code != 503:  # the response of an unhealthy broker
            raise HealthUnknownError(f"{url} answers {error.code}: is this a broker that was started with --metrics?") from error
        body = error.read(ANSWER_BYTES_MAX)
    except (InvalidURL, ValueError) as error:
        raise HealthUnknownError(f"{address} is no address: write HOST:PORT, as the broker was given with --metrics") from error
    except (OSError, HTTPException) as error:
        raise HealthUnknownError(
            f"{url} does not answer: {_reason(error)}. Is the broker running? Start it with --metrics HOST:PORT, and name the same here."
        ) from error
    try:
        report = json.loads(body)
    except ValueError as error:
        raise HealthUnknownError(
            f"{url} answers with something else than JSON: is this a broker that was started with --metrics?"
        ) from error
    if not isinstance(report, dict) or not {"healthy", "findings", "topics"} <= report.keys():
        raise HealthUnknownError(f"{url} answers with another report than a broker's")
    return report


def _reason(error: Exception) -> str:
    """What went wrong, in the operating system's words where they are its."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return (reason.strerror if isinstance(reason, OSError) else None) or str(reason) or type(reason).__name__


def inspect_directory(directory: Path) -> dict[str, Any]:
    """The report of a data directory's files."""
    from ottla.broker.monitoring.directory_inspection import inspect_directory
    from ottla.log.files import OsFiles

    try:
        seen = inspect_directory(OsFiles(directory), time.time_ns() // 1_000_000)
    except StorageError as error:
        raise HealthUnknownError(str(error)) from error
    if not seen.is_data_directory:
        raise HealthUnknownError(f"{directory} is no data directory of Kafka or Ottla: it holds neither meta.properties nor partitions")
    found = sorted(
        (*seen.findings, *findings(CleanerFacts(state=CleanerState.UNKNOWN), seen.topics)), key=lambda finding: not finding.is_ill
    )
    return {
        "healthy": not any(finding.is_ill for finding in found),
        "at_ms": seen.at_ms,
        "log_directory": str(directory),
        "findings": [asdict(finding) for finding in found],
        "topics": [asdict(topic) | {"growth_bytes_per_hour": topic.growth_bytes_per_hour} for topic in seen.topics],
        "partitions": [
            {
                "topic": partition.name.topic,
                "partition": partition.name.partition,
                "size_bytes": partition.size_bytes,
                "segments": len(partition.segments),
                "cleaned_to": partition.cleaned_to,
                "dirty_bytes": partition.dirty_bytes,
                "cleanable_bytes": partition.cleanable_bytes,
                "dirty_ratio": partition.dirty_ratio,
            }
            for partition in seen.partitions
        ],
    }


def show(report: Mapping[str, Any], console: Console, *, show_all: bool) -> None:
    """Print a report: what was inspected and what was not, what is unhealthy, other findings, and the topics."""
    is_healthy = bool(report["healthy"])
    verdict = f"{'Healthy' if is_healthy else 'Unhealthy'}: {_inspected(report)}."
    console.print(Text(verdict, style="green" if is_healthy else "bold red"))
    console.print(Text(NOT_INSPECTED))
    for finding in report["findings"]:
        # What a topic's row says need not be said twice.
        if finding["is_ill"] or not finding["subject"].startswith("topic "):
            console.print(Text(f"{'✗' if finding['is_ill'] else '·'} {finding['sentence']}", style="red" if finding["is_ill"] else ""))
            if finding["advice"]:
                console.print(Text(f"  → {finding['advice']}"))
    topics = [topic for topic in report["topics"] if show_all or _is_of_interest(topic)]
    if topics:
        console.print(_table(topics[: None if show_all else TOPICS_MAX], max(_NAME_WIDTH_MIN, console.width - _FIGURES_WIDTH)))
    left_out = len(report["topics"]) - len(topics if show_all else topics[:TOPICS_MAX]) + report.get("topics_left_out", 0)
    if left_out:
        console.print(f"{left_out} more topics; --all lists those that are known.")


def _inspected(report: Mapping[str, Any]) -> str:
    """What the verdict is about."""
    topics = report["topics"]
    count, partitions = len(topics) + report.get("topics_left_out", 0), sum(topic["partitions"] for topic in topics)
    more = " or more" if report.get("topics_left_out") else ""
    return f"the log cleaner and the logs of {_counted(count, 'topic')} ({_counted(partitions, 'partition', more)})"


def _counted(count: int, noun: str, more: str = "") -> str:
    return f"{count}{more} {noun}{'' if count == 1 and not more else 's'}"


def _is_of_interest(topic: Mapping[str, Any]) -> bool:
    return bool(topic["is_compacted"]) or abs(topic["growth_bytes_per_hour"] or 0) >= _GROWING_BYTES_PER_HOUR


def _table(topics: Sequence[Mapping[str, Any]], name_width: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("TOPIC", overflow="ellipsis", no_wrap=True, max_width=name_width)
    for name in ("PARTS", "SIZE", "DIRTY", "RATIO", "GROWTH/H", "STATE"):
        table.add_column(name, justify="left" if name == "STATE" else "right", no_wrap=True)
    for topic in topics:
        growth = topic["growth_bytes_per_hour"]
        is_compacted = topic["is_compacted"]
        table.add_row(
            Text(topic["name"]),
            str(topic["partitions"]),
            size_text(topic["size_bytes"]),
            size_text(topic["dirty_bytes"]) if is_compacted else "-",
            f"{topic['dirty_ratio']:.2f}" if is_compacted else "-",
            "-" if growth is None else f"{'+' if growth > 0 else ''}{size_text(growth)}",
            _state(topic),
        )
    return table


def _state(topic: Mapping[str, Any]) -> Text:
    from ottla.log.cleaner.health import OVERDUE_MS_MAX, duration_text

    if not topic["is_compacted"]:
        return Text("not compacted", style="dim")
    overdue_ms = topic["overdue_ms"]
    if overdue_ms > OVERDUE_MS_MAX:
        return Text(f"behind for {duration_text(overdue_ms)}", style="red")
    return Text("to be cleaned" if overdue_ms else "clean enough")
