"""The daemon loads the kernels and the fetch client, then runs Spark's own; it loads nothing that starts threads."""

import subprocess
import sys

import pytest

from ottla.spark import daemon


def test_everything_is_loaded_before_workers_are_forked_and_not_garbage_to_them(monkeypatch: pytest.MonkeyPatch):
    order: list[str] = []
    monkeypatch.setattr(daemon, "load_kernels", lambda: order.append("kernels"))
    monkeypatch.setattr(daemon.gc, "freeze", lambda: order.append("freeze"))
    monkeypatch.setattr(daemon.daemon, "manager", lambda: order.append("manager"))
    daemon.main()
    assert order == ["kernels", "freeze", "manager"]


def test_what_a_task_needs_and_no_arrow():
    script = "import sys, ottla.spark.daemon; print(*[name in sys.modules for name in ('ottla.client.fetch.fetcher', 'numba', 'pyarrow')])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "True True False\n"
