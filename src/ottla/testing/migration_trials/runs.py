"""`python -m ottla.testing.migration_trials.runs`: migrations that are killed and started again.

It prints a line for each kill, and one with the verdict and the figures of each trial.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ottla.testing.migration_trials.world import MIGRATE, PLAIN_COPY, VICTIMS, Trial, World
from ottla.testing.processes.ottla_process import OttlaProcess
from ottla.testing.processes.process import BrokerProcess
from ottla.testing.reference.apache_kafka import QUICK_JVM_OPTIONS, VERSION, ApacheKafka

COMMANDS = {"ottla-migrate": MIGRATE, "plain-copy": PLAIN_COPY}


def main(arguments: Sequence[str]) -> int:
    """Run a trial for each seed; the exit status is 1 when anything was wrong."""
    given = _arguments(arguments)
    wrong = 0
    for seed in given.seeds:
        trial = Trial(
            seed=seed,
            records=given.records,
            source_partitions=given.partitions[0],
            target_partitions=given.partitions[1],
            is_followed=given.follow,
            partitioner=given.partitioner,
            command=COMMANDS[given.command],
            more=given.more,
            idle_s=given.idle,
            per_second=given.per_second,
            victims=given.victims,
        )
        with tempfile.TemporaryDirectory(prefix="ottla-migration-") as directory:
            wrong += bool(run_trial(_broker(given.broker, Path(directory)), trial, given.kills, Path(directory) / "trial"))
    return 1 if wrong else 0


def run_trial(broker: BrokerProcess, trial: Trial, kills: int, directory: Path) -> list[str]:
    """Migrate once, with this number of kills; return what is wrong."""
    name = f"{trial.source_partitions} to {trial.target_partitions} on {broker.kind}, seed {trial.seed}"
    with broker, World(broker, trial, directory) as world:
        report(f"{name}: {trial.records} records are in the source")
        if not trial.is_followed:
            report(f"{name}: stated beforehand: {world.dry_run()}")
        world.start()
        for moment in world.moments(kills):
            report(f"{name}: {world.kill(moment)}")
        outcome = world.finish()
    report(f"{name}: {outcome.figures}: {_verdict(outcome.wrong)}")
    return outcome.wrong


def _verdict(wrong: Sequence[str]) -> str:
    return "ok" if not wrong else f"WRONG in {len(wrong)} ways, such as " + "; ".join(wrong[:5])


def _broker(kind: str, directory: Path) -> BrokerProcess:
    if kind == "ottla":
        return OttlaProcess(directory / "data")
    return ApacheKafka(directory / "kafka", cache_dir=Path(".cache") / f"apache-kafka-{VERSION}", jvm_options=QUICK_JVM_OPTIONS)


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.migration_trials.runs", description=__doc__)
    parser.add_argument("--broker", choices=("ottla", "apache-kafka"), default="ottla")
    parser.add_argument("--records", type=int, default=200_000, help="in the source before the migration starts")
    parser.add_argument("--from", dest="from_partitions", type=int, default=24, metavar="N")
    parser.add_argument("--to", dest="to_partitions", type=int, default=6, metavar="N")
    parser.add_argument("--kills", type=int, default=2, help="in each trial")
    parser.add_argument("--follow", action="store_true", help="while a producer writes and a member of a group reads")
    parser.add_argument("--idle", type=float, default=5, metavar="SECONDS", help="--idle of the command")
    parser.add_argument("--per-second", type=int, default=1_000, metavar="RECORDS", help="the producer's rate with --follow")
    parser.add_argument("--partitioner", choices=("murmur2", "crc32"), default="murmur2")
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default=[1], help="1,2,3: a trial each")
    parser.add_argument("--command", choices=tuple(COMMANDS), default="ottla-migrate", help="plain-copy: without Spark, for small trials")
    parser.add_argument("--victims", type=_victims, default=VICTIMS, help=f"what may be killed, of {','.join(VICTIMS)}")
    parser.add_argument("--more", action="append", default=[], metavar="WORD", help="a further argument of the command; may be repeated")
    given = parser.parse_args(words)
    given.partitions = (given.from_partitions, given.to_partitions)
    return given


def _victims(text: str) -> tuple[str, ...]:
    given = tuple(text.split(","))
    if not set(given) <= set(VICTIMS):
        raise argparse.ArgumentTypeError(f"write some of {','.join(VICTIMS)}")
    return given


def report(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
