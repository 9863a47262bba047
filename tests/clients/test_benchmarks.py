"""The benchmarks run at their small size, so that they keep running; speed is not checked here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
METRICS = {
    "startup": 4,
    "join": 2,
    "latency": 4,
    "throughput": 2,
    "wire": 2,
    "flush": 5,
    "restart": 4,
    "memory": 5,
    "cleaner": 12,
    "groups": 27,
    "transactions": 6,
    "attacks": 2,
    "diagnosis_logs": 4,
    "assignors": 24,
    "consumer": 6,
    "security": 8,
}
ONE_CELL = {
    "throughput": ["--only", "1,000 B, lz4, 3 p"],
    "wire": ["--only", "100 B, zstd, 3 p"],
    "transactions": ["--only", "partitions"],
    "attacks": ["--only", "CreateTopics"],
    "consumer": ["--only", "e, 100 B, lz4"],
}


@pytest.mark.parametrize("name", METRICS)
def test_it_measures_ottla(name: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    arguments = ["--small", "--peers", "ottla", "--json", str(result), *ONE_CELL.get(name, [])]
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    measured = json.loads(result.read_text())["measured"]
    assert len(measured) == METRICS[name]
    for each in measured:
        assert all(value > 0 for value in each["values"]["ottla"]), each
        assert each["metric"] in ran.stdout


def test_an_unknown_peer_is_refused() -> None:
    command = [sys.executable, str(BENCHMARKS / "join.py"), "--peers", "ottla,abroad"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert "unknown peers: abroad" in ran.stderr
