"""The tree of a process with a child: listed, counted and killed."""

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from ottla.testing.processes.process_tree import command_line, cpu_seconds, kill_tree, process_tree, resident_bytes

CHILD = "subprocess.Popen([sys.executable, '-c', 'input()'])"
FAMILY = f"import subprocess, sys; sum(range(5_000_000)); {CHILD}; print('ready', flush=True); input()"


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    """A process with a child; both wait for input."""
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        yield parent
        parent.kill()


def test_a_process_and_its_descendants(family: subprocess.Popen[str]):
    parent, child = process_tree(family.pid)
    assert child.ppid() == parent.pid == family.pid
    assert command_line(child).endswith(" -c input()")
    assert cpu_seconds(family.pid) > cpu_seconds(child.pid) >= 0
    assert resident_bytes(family.pid) > 1_000_000


def test_kill_tree_kills_them_all(family: subprocess.Popen[str]):
    processes = process_tree(family.pid)
    kill_tree(family.pid)
    assert family.wait() == -9
    gone, alive = psutil.wait_procs(processes, timeout=60)
    assert len(gone) == 2
    assert alive == []
    assert [command_line(process) for process in processes] == ["", ""]


def test_a_process_that_has_ended_has_no_tree():
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    kill_tree(ended.pid)
    assert process_tree(ended.pid) == []
    assert cpu_seconds(ended.pid) == 0
