"""The benchmark of the page runs at its small size, so that it keeps running; speed is not checked here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "report_page.py"


@pytest.mark.usefixtures("chromium")
def test_it_measures_the_page(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    ran = subprocess.run(
        [sys.executable, str(BENCHMARK), "--small", "--json", str(result)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = json.loads(result.read_text())["small"]
    assert all(value > 0 for value in figures.values()), figures
    assert all(name in ran.stdout for name in figures)
