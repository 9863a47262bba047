"""Who of a group can be killed; tests/spark/test_kill.py kills them, and `make kill-tests` does for an hour."""

from pathlib import Path

import pytest

from ottla.testing.processes.ottla_process import OttlaProcess
from ottla.testing.streaming_kills.line_ups import ALONE, PLAIN, SHARING, LineUp
from ottla.testing.streaming_kills.world import VICTIMS, World


@pytest.mark.parametrize("who", [ALONE, *SHARING], ids=lambda who: who.name)
def test_a_driver_is_frozen_where_another_member_takes_over_and_a_consumer_disturbed_where_there_is_one(who: LineUp, tmp_path: Path):
    world = World(OttlaProcess(tmp_path / "data"), 1, tmp_path / "group", who=who)
    others = ("freeze",) if len(who.members) > 1 else ()
    assert world.victims == (*VICTIMS, *others, *(("consumer", "visit") if PLAIN in who.members else ()))
