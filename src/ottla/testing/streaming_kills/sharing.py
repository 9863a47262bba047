"""`python -m ottla.testing.streaming_kills.sharing`: members of a group share 12 partitions; a line for each trial, and a verdict.

Takeover: of two applications one is killed, and the time is measured until the other has read what was then written to all partitions.
Visits: a plain consumer joins and leaves a Spark application, with the range and the cooperative-sticky assignor: no record is processed
twice. Rolling restart: two applications with a group.instance.id are stopped and started one after the other, in the same generation.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ottla.testing.processes.process import BrokerProcess
from ottla.testing.streaming_kills.files import planned_generation
from ottla.testing.streaming_kills.line_ups import MEMBER, PLAIN, SPARK, LineUp
from ottla.testing.streaming_kills.programs import Program
from ottla.testing.streaming_kills.runs import make_broker, report, verdict
from ottla.testing.streaming_kills.world import World

PARTITIONS: Final = 12
TWO: Final = LineUp("two applications", MEMBER, (SPARK, SPARK), heartbeat_ms=200)
STATIC: Final = LineUp("two static applications", MEMBER, (SPARK, SPARK), is_static=True, session_ms=300_000)
VISITED: Final = [
    LineUp(f"beside a consumer, {assignor}", MEMBER, (SPARK, PLAIN), assignor) for assignor in ("range", "cooperative-sticky")
]
TAKEOVER_S_MAX: Final = TWO.session_ms / 1000 + 1
"""The session timeout, and a second for a heartbeat, the rebalance, and a trigger with its batch."""


def main(arguments: Sequence[str]) -> int:
    """Run all trials; the exit status is 1 when anything was wrong."""
    given = _arguments(arguments)
    trials: list[tuple[LineUp, Callable[[World, int], list[str]]]] = [
        (TWO, take_over),
        *((who, visit) for who in VISITED),
        (STATIC, restart),
    ]
    is_wrong = False
    for who, trial in trials:
        with tempfile.TemporaryDirectory(prefix="ottla-sharing-") as directory:
            is_wrong |= bool(_try(make_broker(given.broker, Path(directory)), Path(directory) / "group", who, trial, given.rounds))
    return int(is_wrong)


def _try(broker: BrokerProcess, directory: Path, who: LineUp, trial: Callable[[World, int], list[str]], rounds: int) -> list[str]:
    with broker, World(broker, 1, directory, who=who, partitions=PARTITIONS) as world:
        world.settle()
        wrong = trial(world, rounds) + world.finish()
    report(f"{who.name}: {verdict(wrong)}")
    return wrong


def take_over(world: World, rounds: int) -> list[str]:
    """Kill one application, and then the other, and so on; what took too long."""
    wrong = []
    for number in range(rounds):
        killed = world.members[number % len(world.members)]
        killed.kill()
        began = time.monotonic()
        world.wait_for_records()
        world.wait_until_processed(world.producer.ends())
        took_s = time.monotonic() - began
        report(f"takeover {number + 1}: the other application has all partitions {took_s:.2f} s later, session timeout {TWO.session_ms} ms")
        if took_s > TAKEOVER_S_MAX:
            wrong.append(f"a takeover took {took_s:.2f} s")
        killed.start()
        world.settle()
    return wrong


def visit(world: World, rounds: int) -> list[str]:
    """Have the plain consumer leave and come back; what went wrong."""
    wrong = []
    for number in range(rounds):
        kill = world.kill_one("visit")
        report(f"visit {number + 1}: {kill.what}, all processed {kill.back_after_s:.1f} s later: {verdict(kill.wrong)}")
        wrong += kill.wrong
    return wrong


def restart(world: World, rounds: int) -> list[str]:
    """Stop and start each application; whether that began a new generation."""
    before = {_generation(member) for member in world.members}
    for number in range(rounds):
        for member in world.members:
            member.stop()
            world.wait_for_records()
            member.start()
            world.wait_for_records()
            world.wait_until_processed(world.producer.ends())
        report(f"rolling restart {number + 1}: generations {sorted({_generation(member) for member in world.members})}")
    after = {_generation(member) for member in world.members}
    return [] if len(before) == 1 and after == before else [f"the generation was {before}, and is {after}"]


def _generation(member: Program) -> int:
    return planned_generation(member.directory / "checkpoint")


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.streaming_kills.sharing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of each trial")
    parser.add_argument("--broker", choices=("ottla", "apache-kafka"), default="ottla")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
