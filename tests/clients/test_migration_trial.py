"""A trial of migrations, small: the command's place has a page of plain Python, which is killed, and then goes wrong on purpose.

`ottla migrate` itself is killed by `make migration-trials`, with millions of records and on Apache Kafka too.
"""

from pathlib import Path

from ottla.cli.processes import OttlaProcess
from trials.migration.world import COMMAND_VICTIMS, PLAIN_COPY, Trial, World

SMALL = Trial(
    seed=1,
    records=600,
    source_partitions=6,
    target_partitions=4,
    is_followed=True,
    command=PLAIN_COPY,
    idle_s=0.2,
    per_second=200,
)


def test_a_migration_that_is_killed_is_right_in_the_end(tmp_path: Path):
    trial = SMALL._replace(victims=COMMAND_VICTIMS)
    with OttlaProcess(tmp_path / "data") as broker, World(broker, trial, tmp_path / "trial") as world:
        world.start()
        assert "killed" in world.kill("copying")
        outcome = world.finish()
    assert outcome.wrong == []


def test_a_migration_that_loses_a_record_and_skips_one_is_found(tmp_path: Path):
    broken = SMALL._replace(is_followed=False, more=("--defect", "lost", "--wrong-groups"))
    with OttlaProcess(tmp_path / "data") as broker, World(broker, broken, tmp_path / "trial") as world:
        world.start()
        wrong = world.finish().wrong
    assert any(each.endswith("of the source is lost") for each in wrong)
    assert any("trial-ahead: 0 is committed at" in each for each in wrong)
