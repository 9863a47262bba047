"""What a trial reads of the command's answers; tests/clients/test_migration_trial.py runs one."""

from pathlib import Path

from ottla.testing.migration_trials.world import Trial, World, planned_offsets
from ottla.testing.processes.ottla_process import OttlaProcess


def world(tmp_path: Path, *, is_followed: bool) -> World:
    trial = Trial(seed=4, records=1, source_partitions=1, target_partitions=1, is_followed=is_followed)
    return World(OttlaProcess(tmp_path), trial, tmp_path)


def test_kills_come_in_the_order_of_the_stages(tmp_path: Path):
    moments = world(tmp_path, is_followed=True).moments(40)
    stages = ["copying", "following", "cutting over"]
    assert [stages.index(each) for each in moments] == sorted(stages.index(each) for each in moments)
    assert set(moments) == set(stages)
    assert world(tmp_path, is_followed=False).moments(5) == ["copying"] * 5


def test_a_plan_has_the_offsets_of_each_group(tmp_path: Path):
    plan = tmp_path / "plan.csv"
    plan.write_text('g,flights,0,5\n"h,1",flights,0,7\ng,flights,1,6\n')
    assert planned_offsets(plan) == {"g": {0: 5, 1: 6}, "h,1": {0: 7}}
