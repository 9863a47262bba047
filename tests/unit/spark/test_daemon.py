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


DECODE = """
from ottla.columnar import RecordBatchDecoder
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
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
