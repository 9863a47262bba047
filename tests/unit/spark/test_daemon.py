"""The daemon loads what its workers need, then runs Spark's own; it loads nothing that starts threads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark import daemon
from ottla.spark.options.values import OptionError


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


def test_errors_of_this_package_come_without_a_traceback_and_others_with_it():
    try:
        raise OptionError("leave it out") from ValueError("x")
    except OptionError:
        assert daemon.WorkerTraceback("traceback").format_exc() == "ottla.spark.options.values.OptionError: leave it out\n"
    try:
        raise KeyError("bug")
    except KeyError:
        assert daemon.WorkerTraceback("traceback").format_exc().startswith("Traceback")


def test_a_worker_that_has_looked_for_formats_ends_with_its_daemon(monkeypatch: pytest.MonkeyPatch):
    ended: list[object] = []
    monkeypatch.setattr(daemon.os, "kill", lambda *arguments: ended.append(arguments))
    monkeypatch.setattr(daemon.os, "_exit", ended.append)
    daemon.LastCollection("gc").collect()
    assert ended == [(os.getppid(), signal.SIGTERM), 0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a daemon's workers are counted in /proc")
@pytest.mark.parametrize(("others", "is_ended"), [("", True), (" 5", False)])
def test_a_closed_connection_prints_nothing_and_the_last_worker_ends_its_daemon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], others: str, is_ended: bool
):
    killed: list[int] = []
    monkeypatch.setattr(daemon.time, "sleep", lambda _s: None)
    monkeypatch.setattr(daemon.os, "getppid", os.getpid)
    monkeypatch.setattr(daemon.os, "kill", lambda pid, _signal: killed.append(pid))
    monkeypatch.setattr(Path, "read_text", lambda _path: f"{os.getpid()}{others}\n")
    try:
        raise BrokenPipeError
    except BrokenPipeError:
        daemon.DaemonTraceback("traceback").print_exc()
    assert (capsys.readouterr().err, killed) == ("", [os.getpid()] if is_ended else [])
    try:
        raise KeyError("bug")
    except KeyError:
        daemon.DaemonTraceback("traceback").print_exc()
    assert "KeyError: 'bug'" in capsys.readouterr().err
