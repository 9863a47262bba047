"""A process and what it started, as the system sees them: who they are, what they cost, and their end (Linux: /proc).

It starts nothing; a process that ends meanwhile is no error.
"""

import os
import signal
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """The process and all that it started, directly or not, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(entry.name)):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def command(pid: int) -> str:
    """A process's command line, its words joined by NUL; "" when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
    except OSError:
        return ""


def parent(pid: int) -> int | None:
    """The process that started it; None when it has ended."""
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def state(pid: int) -> str:
    """A process's state as /proc names it: R (runs), S (sleeps), T (stopped by a signal), Z (has ended); "" when it is gone."""
    return next(iter(_stat(pid)), "")


def kill(pid: int) -> None:
    """SIGKILL; nothing happens when it has ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and all its descendants, those that have ended and were waited for among them."""
    return sum(sum(map(int, fields[11:15])) for each in descendants(pid) if (fields := _stat(each))) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """The resident memory of a process that runs."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no resident memory")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, from the state on; none when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
