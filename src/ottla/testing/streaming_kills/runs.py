"""`python -m ottla.testing.streaming_kills.runs`: kill a streaming query's processes; one line for each run, and a summary.

A run is one kill at a random moment, checked once the group has caught up. The runs of a seed share one world: tables, checkpoints and
group are those that the kills before have left. In member mode the seed also decides who is in the group: line_ups.SHARING in turn.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.testing.processes.ottla_process import OttlaProcess
from ottla.testing.processes.process import BrokerProcess
from ottla.testing.reference.apache_kafka import QUICK_JVM_OPTIONS, VERSION, ApacheKafka
from ottla.testing.streaming_kills.driver import SOURCES
from ottla.testing.streaming_kills.line_ups import COMMIT, MEMBER, line_up
from ottla.testing.streaming_kills.world import World

RUNS_IN_A_WORLD: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Run them all; the exit status is 1 when anything was wrong."""
    given = _arguments(arguments)
    seeds = given.seeds or list(range(1, 1 + max(1, -(-given.runs // RUNS_IN_A_WORLD))))
    found: Counter[str] = Counter()
    began = time.monotonic()
    for number, seed in enumerate(seeds):
        share = given.runs // len(seeds) + (number < given.runs % len(seeds))
        with tempfile.TemporaryDirectory(prefix="ottla-kill-") as directory:
            found += _world(make_broker(given.broker, Path(directory)), seed, share, Path(directory) / "query", given)
    took = f"{given.runs} runs in {time.monotonic() - began:.0f} s on {given.broker}"
    report(f"{took}: " + ", ".join(f"{n} {what}" for what, n in found.items()))
    return 1 if found["wrong"] else 0


def _world(broker: BrokerProcess, seed: int, runs: int, directory: Path, given: argparse.Namespace) -> Counter[str]:
    found: Counter[str] = Counter()
    who = line_up(given.mode, seed)
    report(f"seed {seed}: {who.name}")
    with broker, World(broker, seed, directory, source=given.source, who=who) as world:
        for number in range(1, runs + 1):
            kill = world.kill_one()
            again = f"{kill.again} written again, " if kill.again else ""
            report(
                f"seed {seed} run {number}: {kill.what}: caught up {kill.back_after_s:.1f} s later, {kill.records} records, {again}"
                f"{kill.checks} checks: {verdict(kill.wrong)}"
            )
            found[kill.what.partition(" ")[0]] += 1
            found["wrong"] += bool(kill.wrong)
        wrong = world.finish()
        report(f"seed {seed} at the end: {verdict(wrong)}")
        found["wrong"] += bool(wrong)
    return found


def verdict(wrong: Sequence[str]) -> str:
    """What was wrong, if anything, as the end of a line."""
    return "ok" if not wrong else f"WRONG in {len(wrong)} ways, such as " + "; ".join(wrong[:5])


def make_broker(kind: str, directory: Path) -> BrokerProcess:
    """A broker with its data in a new folder of `directory`; `kind` is "ottla" or "apache-kafka"."""
    if kind == "ottla":
        return OttlaProcess(directory / "data")
    return ApacheKafka(directory / "kafka", cache_dir=Path(".cache") / f"apache-kafka-{VERSION}", jvm_options=QUICK_JVM_OPTIONS)


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.streaming_kills.runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=60, help="kills, over all seeds")
    parser.add_argument(
        "--seeds", type=lambda text: [int(each) for each in text.split(",") if each], default=[], help="1,2,3: a world each"
    )
    parser.add_argument("--mode", choices=(COMMIT, MEMBER), default=COMMIT, help="the option ottla.group.mode of the queries")
    parser.add_argument("--broker", choices=("ottla", "apache-kafka"), default="ottla")
    parser.add_argument("--source", choices=tuple(SOURCES), default="ottla", help="all but the default are broken on purpose")
    return parser.parse_args(arguments)


def report(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
