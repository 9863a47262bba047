"""The whole demo, made small: a few thousand flights, short timeouts, every incident, both Spark jobs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.cli.processes import ToolMissing, find_java
from tests.support.reference.class_archives import archive_options, spark_archive

CHECKOUT = Path(__file__).parent.parent.parent
FLIGHTS = 6_000
# A process of its own: it has its own Spark session, and ends it.
SCRIPT = """
import sys
from pathlib import Path
from rich.console import Console
from ottla.cli.demo.demo_run import run
from ottla.cli.demo.scene import Timing

timing = Timing(
    session_timeout_ms=2_000, heartbeat_interval_ms=200, max_poll_interval_ms=4_000, slow_batch_ms=6_000, metadata_refresh_ms=500,
    flights_per_second=300, work_between_seconds=0.3, wait_seconds_max=120,
)
run(Path(sys.argv[1]), console=Console(width=100), timing=timing, flights_max=int(sys.argv[2]))
"""


@pytest.mark.usefixtures("quick_workers")
def test_every_incident_leaves_its_rebalance_and_no_flight_is_lost(tmp_path: Path) -> None:
    try:
        find_java()
    except ToolMissing as missing:
        pytest.skip(f"Spark {missing}")
    results = tmp_path / "results"
    # As Spark's own scripts take them: the session's settings are those of the demo.
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(archive_options(spark_archive(CHECKOUT / ".cache")))}
    command = [sys.executable, "-c", SCRIPT, str(results), str(FLIGHTS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.replace(str(results), "demo-results").splitlines()  # a path is as long as it is
    assert max(map(len, lines)) <= 100
    assert ran.stderr == ""
    summary = json.loads((results / "summary.json").read_text())
    assert sum(summary["flights_per_airline"].values()) == FLIGHTS
    assert sum(each["flights"] for each in summary["consumers"].values()) >= FLIGHTS
    causes = [(row["trigger"], row["client_id"], row["planned"]) for row in summary["rebalances"]]
    expected = [
        ("JOIN_NEW", "consumer-1", True),
        ("EXPIRE_HEARTBEAT", "consumer-2", False),
        ("JOIN_NEW", "consumer-2", False),
        ("LEAVE", "consumer-3", False),
        ("JOIN_NEW", "consumer-3", False),
        ("LEAVE", "consumer-1", True),
    ]
    remaining = iter(causes)
    assert all(cause in remaining for cause in expected), causes
    grown = [row for row in summary["rebalances"] if row["partitions_new"] and row["members_before"]]
    assert [(row["trigger"], row["partitions_new"], row["planned"]) for row in grown] == [("LEADER_REJOIN", 4, True)]
    assert summary["rebalances"][-1]["outcome"] == "emptied"
    assert summary["lag"]["greatest_lag"] > 0
    assert lines[-1] == "  demo-results/report.html"
    page = (results / "report.html").read_text()
    assert "consumer-2 sent no heartbeat for" in page
    assert 'data-group="flight-desk"' in page
    assert "How far behind the group was (Spark, pipeline lag: messages between its commits and the ends)" in lines
    assert all((results / table / "_SUCCESS").exists() for table in ("lag", "lag_history", "lag_commits", "end_offset_history"))
    assert (results / "broker" / "flights-15" / "00000000000000000000.log").stat().st_size > 0
    assert_all_say_the_same(lines, summary["rebalances"], page, results / "broker")


def assert_all_say_the_same(lines: list[str], rows: list[dict[str, Any]], page: str, data: Path) -> None:
    """Of each rebalance: the terminal, Spark's table, the page, and `ottla diagnose` on the data that the demo leaves."""
    with Broker(data_dir=data) as broker:
        command = ["diagnose", "--bootstrap-server", broker.bootstrap_servers, "--group", "flight-desk", "--json"]
        diagnosed = CliRunner().invoke(main, command)
    assert diagnosed.exit_code == 0, diagnosed.output
    verdicts = [row for row in map(json.loads, diagnosed.stdout.splitlines()) if row.get("kind") != "incident"]
    told = [(each["generation"], each["cause"], each["planned"], each["confidence"]) for each in verdicts]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr data-index=.*?</tr>", page)]
    planned = {True: "planned", False: "not planned", None: "not known"}
    drawn = [(cell[2], cell[3].partition(" <small")[0], cell[5], cell[6]) for cell in cells]
    assert [each[:3] for each in drawn] == [(str(number), cause, planned[is_planned]) for number, cause, is_planned, _ in told]
    # The terminal, the table and the page have the group's events; `diagnose` has the commits, too, and may be surer for it.
    sure = ["low", "medium", "high"]
    assert all(sure.index(said) <= sure.index(each[3]) for (*_, said), each in zip(drawn, told, strict=True)), (drawn, told)
    by_generation = {int(generation): (is_planned, confidence) for generation, _, is_planned, confidence in drawn}
    in_table = {row["generation"]: (planned[row["planned"]], row["confidence"]) for row in rows}
    assert {generation: in_table[generation] for generation in by_generation} == by_generation
    for row in rows:
        said = f"{ {True: 'yes', False: 'no', None: '?'}[row['planned']] } ({row['confidence']})"
        assert any(line.split()[:1] == [str(row["generation"])] and said in line for line in lines), row
