"""The results directory: the names of what the demo leaves in it, and the file that marks it as the demo's.

A directory that something else has filled is refused, never cleared.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from ottla.cli.demo import DemoFailedError


class Results:
    """Names inside the results directory. `prepare` makes it, and empties it when it holds an earlier demo's results."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker_data = directory / "broker"
        self.spark_log = directory / "spark.log"
        self.flights_per_airline = directory / "flights-per-airline"
        self.report = directory / "report.html"
        self.summary = directory / "summary.json"

    def prepare(self) -> None:
        """An empty directory with our mark in it. Raises DemoFailedError when it holds anything else."""
        if self.directory.exists():
            is_empty = self.directory.is_dir() and not any(self.directory.iterdir())
            if not is_empty and not self.summary.is_file():
                raise DemoFailedError(f"{self.directory} is there already and holds no demo's results: choose another with --results")
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True)
        self.write_summary({"finished": False})

    def consumer_log(self, name: str) -> Path:
        """Where a consumer process writes its log."""
        return self.directory / f"{name}.log"

    def consumer_summary(self, name: str) -> Path:
        """Where a consumer process says at its end what it did."""
        return self.directory / f"{name}.json"

    def write_summary(self, summary: dict[str, Any]) -> None:
        """What the demo found, for programs."""
        self.summary.write_text(json.dumps(summary, indent=1) + "\n")
