"""The daemon loads what its workers need, then runs Spark's own; it loads nothing that starts threads."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ottla.spark import daemon


@pytest.mark.parametrize(("arguments", "workers"), [([], "pyspark.worker"), (["pyspark.sql.worker.x"], "pyspark.sql.worker.x")])
def test_everything_is_loaded_before_workers_are_forked_and_not_garbage_to_them(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], workers: str
):
    order: list[str] = []
    monkeypatch.setattr(sys, "argv", ["daemon.py", *arguments])
    monkeypatch.setattr(daemon, "load", order.append)
    monkeypatch.setattr(daemon.gc, "freeze", lambda: order.append("freeze"))
    monkeypatch.setattr("pyspark.daemon.manager", lambda: order.append("manager"))
    monkeypatch.setattr(daemon, "without_archives", lambda path: order.append("path") or path)
    daemon.main()
    assert order == ["path", workers, "freeze", "manager"]


def test_archives_of_the_installed_pyspark_are_left_out(tmp_path: Path):
    installed, lib, elsewhere = tmp_path / "site-packages", tmp_path / "site-packages/pyspark/python/lib", tmp_path / "spark/python/lib"
    for package in ("pyspark", "py4j"):
        (installed / package).mkdir(parents=True)
        (installed / package / "__init__.py").touch()
    own = [str(lib / "pyspark.zip"), str(lib / "py4j-0.10-src.zip")]
    others = [str(elsewhere / "pyspark.zip"), "/jobs/mine.zip", "/job"]
    assert daemon.without_archives([*own, *others, str(installed)]) == [*others, str(installed)]
    for without in ([*own, *others], [*own, str(tmp_path / "empty")]):
        assert daemon.without_archives(without) == without, "no PySpark is installed: they are needed"
    (installed / "py4j" / "__init__.py").unlink()
    (installed / "py4j").rmdir()
    assert daemon.without_archives([*own, str(installed)]) == [*own, str(installed)]


def test_the_archives_of_this_machine_are_left_out():
    """With the path that Spark gives to its Python processes."""
    lib = Path(pyspark.__file__).parent / "python" / "lib"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, lib.glob("*.zip")), os.environ.get("PYTHONPATH", "")])}
    prefer = "import sys; from ottla.spark import daemon; sys.path[:] = daemon.without_archives(sys.path)"
    script = f"{prefer}; import py4j, pyspark.daemon; print(py4j.__file__, pyspark.daemon.__file__)"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ".zip" not in done.stdout


DECODE = """
from ottla.columnar import RecordBatchDecoder
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
[batch] = RecordBatchDecoder("t", 3).decode(memoryview(encode_batch([Record(0, 0, b"k", b"v")])))
print(batch.num_rows, "pyarrow" in sys.modules, "pandas" in sys.modules)
"""
"""A worker's first read. Arrow imports pandas where it converts Python's objects, more than all other imports after the fork."""


@pytest.mark.parametrize(
    ("workers", "then", "printed"),
    [
        ("pyspark.worker", DECODE, "True True True False\n1 True False\n"),
        ("pyspark.sql.worker.plan_data_source_read", "", "True False False False\n"),
        ("x", "", "False False False False\n"),
    ],
)
def test_what_its_workers_need_and_no_arrow(workers: str, then: str, printed: str):
    names = ("ottla.client.admin.client", "ottla.client.fetch.fetcher", "numba", "pyarrow")
    script = (
        f"import sys; from ottla.spark.daemon import load; load({workers!r}); print(*[name in sys.modules for name in {names}])\n{then}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == printed
