"""Worker, broker and driver of a streaming query are killed: every record is in the table once, the group is never ahead.

One seed and three kills, on our broker, and one session of Spark: it takes longer to start than all the rest. `make kill-tests` has sixty
kills, goes on after those of drivers, and knows Apache Kafka too.
"""

from pathlib import Path

import pytest

from ottla.testing.java import ToolMissing, find_java
from ottla.testing.ottla_process import OttlaProcess
from ottla.testing.streams.world import World


def test_a_query_survives_whatever_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    try:
        java = find_java()
    except ToolMissing as missing:
        pytest.skip(f"Spark {missing}")
    monkeypatch.setenv("JAVA_HOME", str(java.resolve().parent.parent))
    with OttlaProcess(tmp_path / "data") as broker, World(broker, 1, tmp_path / "query") as world:
        for victim in ("worker", "broker"):
            hurt = world.hurt(victim)
            assert hurt.wrong == [], hurt.what
            assert hurt.looks > 0
        assert world.leave() == []
