"""A process with a child, both found, counted and ended."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from ottla.testing.process_tree import command, cpu_seconds, descendants, kill, parent, state

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


def test_a_process_and_all_that_it_started(family: subprocess.Popen[str]):
    first, child = descendants(family.pid)
    assert parent(child) == first == family.pid
    assert state(first) in "RS"
    assert command(child).endswith("input()")
    assert "\0-c\0" in command(child)
    assert cpu_seconds(family.pid) > cpu_seconds(child) >= 0
    for pid in (first, child):
        kill(pid)
    assert family.wait() == -9


def test_what_has_ended_has_no_name_and_is_killed_in_vain():
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert command(ended.pid) == ""
    kill(ended.pid)
    assert descendants(ended.pid) == [ended.pid]
    assert cpu_seconds(ended.pid) == 0
    assert (parent(ended.pid), state(ended.pid)) == (None, "")
