"""What was measured, as a table of medians with their ratios to the rival's, and as JSON with every value. It judges targets only."""

import json
import os
import platform
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median

from peers import APACHE_KAFKA, OTTLA


@dataclass(frozen=True)
class Metric:
    """One thing that is measured: its name, its unit, and which way is better. `target` says whether Ottla's median is good enough.

    `rival`: whom its ratios are to, where that is not the report's.
    """

    name: str
    unit: str
    target: str = ""
    is_met: Callable[[float, float | None], bool] | None = None  # (Ottla's median, the rival's median if there is one)
    rival: str = ""


def at_most(limit: float) -> Callable[[float, float | None], bool]:
    return lambda ours, _: ours <= limit


def at_least(limit: float) -> Callable[[float, float | None], bool]:
    return lambda ours, _: ours >= limit


def at_least_times(factor: float) -> Callable[[float, float | None], bool]:
    return lambda ours, theirs: theirs is None or ours >= factor * theirs


def at_most_times(factor: float) -> Callable[[float, float | None], bool]:
    return lambda ours, theirs: theirs is None or ours <= factor * theirs


def at_most_kafkas(ours: float, theirs: float | None) -> bool:
    return theirs is None or ours <= theirs


def at_least_kafkas(ours: float, theirs: float | None) -> bool:
    return theirs is None or ours >= theirs


@dataclass
class Report:
    """Values by metric and peer, in the order in which they came; `rival` is whom the ratios are to, `ours` whom targets are for."""

    title: str
    rival: str = APACHE_KAFKA
    ours: str = OTTLA
    values: dict[Metric, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    notes: list[str] = field(default_factory=list)

    def add(self, metric: Metric, peer: str, value: float) -> None:
        """Note one measurement."""
        self.values[metric][peer].append(value)

    def note(self, text: str) -> None:
        """A sentence below the table, once."""
        if text not in self.notes:
            self.notes.append(text)

    def table(self) -> str:
        """The medians as a Markdown table; in brackets the ratio to the rival's."""
        peers = list(dict.fromkeys(peer for values in self.values.values() for peer in values))
        lines = [f"## {self.title}", "", f"| median | {' | '.join(peers)} | target |", "|---" * (len(peers) + 2) + "|"]
        for metric, values in self.values.items():
            medians = {peer: median(found) for peer, found in values.items()}
            cells = [self._cell(peer, medians, metric.rival or self.rival) for peer in peers]
            lines.append(f"| {metric.name}, {metric.unit} | {' | '.join(cells)} | {self._verdict(metric, medians)} |")
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)])

    def _cell(self, peer: str, medians: dict[str, float], rival: str) -> str:
        if peer not in medians:
            return "-"
        text = f"{medians[peer]:,.0f}" if medians[peer] >= 100 else f"{medians[peer]:.3g}"
        theirs = medians.get(rival)
        return text if not theirs or peer == rival else f"{text} ({medians[peer] / theirs:.2f}x)"

    def _verdict(self, metric: Metric, medians: dict[str, float]) -> str:
        if metric.is_met is None or self.ours not in medians:
            return metric.target
        met = metric.is_met(medians[self.ours], medians.get(metric.rival or self.rival))
        return f"{metric.target}: {'met' if met else 'MISSED'}"

    def finish(self, json_path: str | None) -> None:
        """Print the table, and write the JSON file if one is wanted."""
        self.note(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, " + _versions())
        print(self.table())
        if json_path:
            measured = [{"metric": metric.name, "unit": metric.unit, "values": values} for metric, values in self.values.items()]
            Path(json_path).write_text(json.dumps({"title": self.title, "measured": measured, "notes": self.notes}, indent=2) + "\n")


def _versions() -> str:
    return ", ".join(f"{package} {version(package)}" for package in ("ottla", "confluent-kafka", "pyspark"))
