"""How a trial is run: seeds in, a line for each verdict out, and for a failure the command that repeats it."""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

WRONG_SHOWN_MAX = 5


class Outcome(NamedTuple):
    """What an oracle says at the end: what is wrong (nothing: all held), and figures in words."""

    wrong: Sequence[str]
    figures: str = ""


class Results:
    """Prints what a trial finds. `command`: the words that started it, by which a failed seed can be repeated."""

    def __init__(self, name: str, command: Sequence[str] = ()) -> None:
        self.name = name
        self.passed = self.failed = 0
        self._command = command
        self._began_s = time.monotonic()

    @property
    def status(self) -> int:
        """The exit status: 1 when anything was wrong."""
        return 1 if self.failed else 0

    def say(self, line: str) -> None:
        """Print a line at once."""
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def verdict(self, what: str, outcome: Outcome, *, seed: int | None = None) -> None:
        """Print whether all held in one run, and count it; `seed` decided the run."""
        words = ": ".join(part for part in (what, outcome.figures) if part)
        self.say(f"{words}: {verdict(outcome.wrong)}")
        if not outcome.wrong:
            self.passed += 1
            return
        self.failed += 1
        if seed is not None:
            self.say(f"repeat it: {self.repetition(seed)}")

    def run_one(self, what: str, run: Callable[[Path], Outcome], *, seed: int | None = None) -> None:
        """Run in a new directory. A run that raises is a failure, with its traceback."""
        with tempfile.TemporaryDirectory(prefix=f"ottla-{self.name}-", ignore_cleanup_errors=True) as directory:
            try:
                outcome = run(Path(directory))
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to this run, and the next ones are of use
                self.say(traceback.format_exc())
                outcome = Outcome([repr(error)])
        self.verdict(what, outcome, seed=seed)

    def run_seeds(self, seeds: Iterable[int], run: Callable[[int, Path], Outcome]) -> None:
        """Run each seed in a new directory."""
        for seed in seeds:
            self.run_one(f"seed {seed}", partial(run, seed), seed=seed)

    def repetition(self, seed: int) -> str:
        """The command that runs this seed alone."""
        words = iter(self._command)
        kept = []
        for word in words:
            if word == "--seed":
                next(words, None)
            elif not word.startswith("--seed="):
                kept.append(word)
        return " ".join(["python -m trials", self.name, *kept, "--seed", str(seed)])

    def close(self) -> None:
        """Print the sum, if there was anything to judge."""
        if self.passed or self.failed:
            self.say(f"{self.name}: {self.passed} ok, {self.failed} wrong, in {time.monotonic() - self._began_s:.0f} s")


def verdict(wrong: Sequence[str]) -> str:
    """What is wrong, if anything, as the end of a line."""
    return f"WRONG in {len(wrong)} ways, such as {'; '.join(wrong[:WRONG_SHOWN_MAX])}" if wrong else "ok"


def add_seed_option(parser: argparse.ArgumentParser, default: str, of: str = "a run each") -> None:
    """Add `--seed` to the options of a trial."""
    parser.add_argument("--seed", type=seeds_in, default=default, metavar="SEEDS", help=f"1,2,3 or 0-99: {of} (default: {default})")


def seeds_in(text: str) -> list[int]:
    """The seeds that a text names: numbers and ranges, separated by commas."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    return seeds
