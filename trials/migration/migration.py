"""Migrations that are killed and started again: the target holds each record once, as it was, and no group misses one.

`ottla migrate` moves a topic to another number of partitions, with `--follow` while a producer writes and a member of a group reads. It
prints a line for each kill.
"""

import argparse
from pathlib import Path

from ottla.cli.processes import BrokerProcess
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import add_broker_option, make_broker
from trials.migration.world import MIGRATE, PLAIN_COPY, VICTIMS, Trial, World

NAME = "migration"
COMMANDS = {"ottla-migrate": MIGRATE, "plain-copy": PLAIN_COPY}


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is moved, how, on which broker, and what is killed how often."""
    add_seed_option(parser, "1")
    add_broker_option(parser)
    parser.add_argument("--records", type=int, default=200_000, help="in the source before the migration starts")
    parser.add_argument("--from", dest="source_partitions", type=int, default=24, metavar="N")
    parser.add_argument("--to", dest="target_partitions", type=int, default=6, metavar="N")
    parser.add_argument("--kills", type=int, default=2, help="with each seed")
    parser.add_argument("--follow", action="store_true", help="while a producer writes and a member of a group reads")
    parser.add_argument("--idle", type=float, default=5, metavar="SECONDS", help="--idle of the command")
    parser.add_argument("--per-second", type=int, default=1_000, metavar="RECORDS", help="the producer's rate with --follow")
    parser.add_argument("--partitioner", choices=("murmur2", "crc32"), default="murmur2")
    parser.add_argument("--command", choices=tuple(COMMANDS), default="ottla-migrate", help="plain-copy: without Spark, for small trials")
    parser.add_argument("--victims", type=_victims, default=VICTIMS, help=f"what may be killed, of {','.join(VICTIMS)}")
    parser.add_argument("--more", action="append", default=[], metavar="WORD", help="a further argument of the command; may be repeated")


def run(options: argparse.Namespace, results: Results) -> None:
    """Migrate once with each seed."""

    def migrate(seed: int, directory: Path) -> Outcome:
        trial = Trial(
            seed=seed,
            records=options.records,
            source_partitions=options.source_partitions,
            target_partitions=options.target_partitions,
            is_followed=options.follow,
            partitioner=options.partitioner,
            command=COMMANDS[options.command],
            more=options.more,
            idle_s=options.idle,
            per_second=options.per_second,
            victims=options.victims,
        )
        return migrate_once(make_broker(options.broker, directory), trial, options.kills, directory / "trial", results)

    results.run_seeds(options.seed, migrate)


def migrate_once(broker: BrokerProcess, trial: Trial, kills: int, directory: Path, results: Results) -> Outcome:
    """Migrate with this number of kills; what is wrong in the end."""
    name = f"{trial.source_partitions} to {trial.target_partitions} on {broker.kind}"
    with broker, World(broker, trial, directory) as world:
        results.say(f"seed {trial.seed}: {name}: {trial.records} records are in the source")
        if not trial.is_followed:
            results.say(f"seed {trial.seed}: stated beforehand: {world.dry_run()}")
        world.start()
        for moment in world.moments(kills):
            results.say(f"seed {trial.seed}: {world.kill(moment)}")
        outcome = world.finish()
    return Outcome(outcome.wrong, f"{name}, {outcome.figures}")


def _victims(text: str) -> tuple[str, ...]:
    victims = tuple(text.split(","))
    if not set(victims) <= set(VICTIMS):
        raise argparse.ArgumentTypeError(f"write some of {','.join(VICTIMS)}")
    return victims
