"""Streaming queries whose driver, worker or broker is killed: every record is in the table once, and the group is never ahead.

A run is one kill at a random moment, checked once the group has caught up. The runs of a seed share one world: tables, checkpoints and
group are those that the kills before have left. In member mode the seed also decides who is in the group: group.SHARING in turn.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Final

from ottla.cli.processes import BrokerProcess
from trials.harness.runs import Outcome, Results, add_seed_option, verdict
from trials.harness.world import add_broker_option, make_broker
from trials.kills.group import COMMIT, MEMBER, line_up
from trials.kills.spark_member import SOURCES
from trials.kills.world import World

NAME = "kills"
RUNS_IN_A_WORLD: Final = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many kills, in which mode, on which broker, of which source."""
    parser.add_argument("--runs", type=int, default=RUNS_IN_A_WORLD, help=f"kills with each seed (default: {RUNS_IN_A_WORLD})")
    add_seed_option(parser, "1-3", "a world each")
    parser.add_argument("--mode", choices=(COMMIT, MEMBER), default=COMMIT, help="the option ottla.group.mode of the queries")
    add_broker_option(parser)
    parser.add_argument("--source", choices=tuple(SOURCES), default="ottla", help="all but the default are broken on purpose")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run each seed in a world of its own."""

    def run_world(seed: int, directory: Path) -> Outcome:
        return kill_in_a_world(make_broker(options.broker, directory), seed, directory / "query", options, results)

    results.run_seeds(options.seed, run_world)


def kill_in_a_world(broker: BrokerProcess, seed: int, directory: Path, options: argparse.Namespace, results: Results) -> Outcome:
    """Kill so often in one world, with a line for each kill; what was wrong in any of them."""
    victims: Counter[str] = Counter()
    wrong: list[str] = []
    who = line_up(options.mode, seed)
    results.say(f"seed {seed}: {who.name}")
    with broker, World(broker, seed, directory, source=options.source, who=who) as world:
        for number in range(1, options.runs + 1):
            kill = world.kill_one()
            again = f"{kill.again} written again, " if kill.again else ""
            results.say(
                f"seed {seed} run {number}: {kill.what}: caught up {kill.back_after_s:.1f} s later, {kill.records} records, {again}"
                f"{kill.checks} checks: {verdict(kill.wrong)}"
            )
            victims[kill.what.partition(" ")[0]] += 1
            wrong += [f"run {number}: {text}" for text in kill.wrong]
        wrong += world.finish()
    return Outcome(wrong, f"{who.name}, {', '.join(f'{count} {victim}' for victim, count in victims.items())}")
