"""A process and its descendants: list them, kill them, count their CPU time. A process that ends meanwhile is no error."""

import contextlib

import psutil


def process_tree(pid: int) -> list[psutil.Process]:
    """The process and all its descendants, parents first; empty when it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def command_line(process: psutil.Process) -> str:
    """The words of a process's command line, separated by spaces; "" when it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def kill_tree(pid: int) -> None:
    """Send SIGKILL to the process and all its descendants."""
    for process in process_tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def cpu_seconds(pid: int) -> float:
    """CPU time of the process and all its descendants, including those that have ended and were waited for."""
    total = 0.0
    for process in process_tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident_bytes(pid: int | None = None) -> int:
    """The resident memory of a running process, this one by default."""
    return int(psutil.Process(pid).memory_info().rss)
