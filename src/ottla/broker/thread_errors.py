"""The error for a thread that the operating system does not start, which Python reports as a RuntimeError without a reason."""

from typing import Final

_PYTHON_MESSAGE: Final = "can't start new thread"


def is_no_thread(error: BaseException) -> bool:
    """Whether an error means that no thread could be started."""
    return isinstance(error, RuntimeError) and _PYTHON_MESSAGE in str(error)


def no_thread(error: BaseException) -> OSError:
    """The same as an error of the operating system, with advice."""
    assert is_no_thread(error)
    return OSError("no thread can be started: raise the limits of processes and memory (ulimit -u, ulimit -v; of a container, its pids)")
