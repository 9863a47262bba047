"""Streaming queries that share a group: takeovers, visits of a plain consumer, rolling restarts; members share 12 partitions.

Takeover: of two applications one is killed, and the time is measured until the other has read what was then written to all partitions.
Visits: a plain consumer joins and leaves a Spark application, with the range and the cooperative-sticky assignor: no record is processed
twice. Rolling restart: two applications with a group.instance.id are stopped and started one after the other, in the same generation.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trials.harness.runs import Outcome, Results, add_seed_option, verdict
from trials.harness.world import add_broker_option, make_broker
from trials.kills.group import MEMBER, PLAIN, SPARK, LineUp
from trials.kills.tables import planned_generation
from trials.kills.world import Member, World

NAME = "sharing"
PARTITIONS: Final = 12
TWO: Final = LineUp("two applications", MEMBER, (SPARK, SPARK), heartbeat_ms=200)
STATIC: Final = LineUp("two static applications", MEMBER, (SPARK, SPARK), is_static=True, session_ms=300_000)
VISITED: Final = [
    LineUp(f"beside a consumer, {assignor}", MEMBER, (SPARK, PLAIN), assignor) for assignor in ("range", "cooperative-sticky")
]
TAKEOVER_S_MAX: Final = TWO.session_ms / 1000 + 1
"""The session timeout, and a second for a heartbeat, the rebalance, and a trigger with its batch."""


Say = Callable[[str], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many rounds, on which broker."""
    parser.add_argument("--rounds", type=int, default=5, help="of each part (default: 5)")
    add_seed_option(parser, "1")
    add_broker_option(parser)


def run(options: argparse.Namespace, results: Results) -> None:
    """Run each part in a world of its own."""
    parts: list[tuple[LineUp, Callable[[World, int, Say], list[str]]]] = [
        (TWO, take_over),
        *((who, visit) for who in VISITED),
        (STATIC, restart),
    ]
    for who, part in parts:

        def run_part(seed: int, directory: Path, who: LineUp = who, part: Callable[[World, int, Say], list[str]] = part) -> Outcome:
            broker = make_broker(options.broker, directory)
            with broker, World(broker, seed, directory / "group", who=who, partitions=PARTITIONS) as world:
                world.settle()
                return Outcome(part(world, options.rounds, results.say) + world.finish(), who.name)

        results.run_seeds(options.seed, run_part)


def take_over(world: World, rounds: int, say: Say) -> list[str]:
    """Kill one application, and then the other, and so on; what took too long."""
    wrong = []
    for number in range(rounds):
        killed = world.members[number % len(world.members)]
        killed.kill()
        began = time.monotonic()
        world.wait_for_records()
        world.wait_until_processed(world.ledger.ends())
        took_s = time.monotonic() - began
        say(f"takeover {number + 1}: the other application has all partitions {took_s:.2f} s later, session timeout {TWO.session_ms} ms")
        if took_s > TAKEOVER_S_MAX:
            wrong.append(f"a takeover took {took_s:.2f} s")
        killed.start()
        world.settle()
    return wrong


def visit(world: World, rounds: int, say: Say) -> list[str]:
    """Have the plain consumer leave and come back; what went wrong."""
    wrong = []
    for number in range(rounds):
        kill = world.kill_one("visit")
        say(f"visit {number + 1}: {kill.what}, all processed {kill.back_after_s:.1f} s later: {verdict(kill.wrong)}")
        wrong += kill.wrong
    return wrong


def restart(world: World, rounds: int, say: Say) -> list[str]:
    """Stop and start each application; whether that began a new generation."""
    before = {_generation(member) for member in world.members}
    for number in range(rounds):
        for member in world.members:
            member.stop()
            world.wait_for_records()
            member.start()
            world.wait_for_records()
            world.wait_until_processed(world.ledger.ends())
        say(f"rolling restart {number + 1}: generations {sorted({_generation(member) for member in world.members})}")
    after = {_generation(member) for member in world.members}
    return [] if len(before) == 1 and after == before else [f"the generation was {before}, and is {after}"]


def _generation(member: Member) -> int:
    return planned_generation(member.directory / "checkpoint")
