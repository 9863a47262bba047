"""The import contracts of pyproject.toml hold, and importing a package does not load the heavy libraries of another."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_import_contracts_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([str(tool), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("ottla", ["kio", "numpy", "numba", "pyarrow", "pyspark", "click"]),
        ("ottla.broker", ["hypothesis", "numpy", "numba", "pyarrow", "pyspark", "rich", "prometheus_client"]),
        ("ottla.client.admin.client", ["hypothesis", "numpy", "pyspark"]),
        ("ottla.testing.raw_client", ["hypothesis", "numpy"]),
        ("ottla.columnar", ["numba"]),
        ("ottla.cli.main", ["kio", "numba", "pyarrow", "pyspark"]),
        ("ottla.spark", ["kio", "numpy", "numba", "pyarrow", "pyspark"]),
        ("pyspark_ottla", ["kio", "numpy", "numba", "pyarrow", "ottla.client", "ottla.columnar"]),
        ("ottla.testing.pytest_plugin", ["kio", "numba", "pyarrow", "pyspark"]),
    ],
)
def test_a_package_loads_no_library_that_it_does_not_need(module: str, heavy: list[str]) -> None:
    script = f"import sys, {module}; print(*[name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
