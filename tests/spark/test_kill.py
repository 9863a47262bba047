"""Worker, broker and driver of a streaming query are killed: every record is in the table once, the group is never ahead.

One seed and three kills, on our broker, and one session of Spark: it takes longer to start than all the rest. `make kill-tests` has sixty
kills, continues after those of drivers, and knows Apache Kafka too.
"""

from pathlib import Path

import pytest

from ottla.cli.processes import OttlaProcess, ToolMissing, find_java_home
from trials.kills.world import World


@pytest.mark.usefixtures("quick_workers")
def test_a_query_survives_whatever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    try:
        java_home = find_java_home()
    except ToolMissing as missing:
        pytest.skip(f"Spark {missing}")
    monkeypatch.setenv("JAVA_HOME", str(java_home))
    with OttlaProcess(tmp_path / "data") as broker, World(broker, 1, tmp_path / "query") as world:
        for victim in ("worker", "broker"):
            kill = world.kill_one(victim)
            assert kill.wrong == [], kill.what
            assert kill.checks > 0
        assert world.leave() == []
