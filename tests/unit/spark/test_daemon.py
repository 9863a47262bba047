"""The daemon loads what its workers need, then runs Spark's own; it loads nothing that starts threads."""

import subprocess
import sys

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
    monkeypatch.setattr(daemon.daemon, "manager", lambda: order.append("manager"))
    daemon.main()
    assert order == [workers, "freeze", "manager"]


@pytest.mark.parametrize(
    ("workers", "is_loaded"),
    [("pyspark.worker", "True True True"), ("pyspark.sql.worker.plan_data_source_read", "True False False"), ("x", "False False False")],
)
def test_what_its_workers_need_and_no_arrow(workers: str, is_loaded: str):
    names = ("ottla.client.admin.client", "ottla.client.fetch.fetcher", "numba", "pyarrow")
    script = f"import sys; from ottla.spark.daemon import load; load({workers!r}); print(*[name in sys.modules for name in {names}])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{is_loaded} False\n"
