"""What to say when the operating system gives no thread, which Python reports as a RuntimeError without a reason."""

from typing import Final

_PYTHONS_WORDS: Final = "can't start new thread"


def is_no_thread(error: BaseException) -> bool:
    """Whether this error means it."""
    return isinstance(error, RuntimeError) and _PYTHONS_WORDS in str(error)


def no_thread(error: BaseException) -> OSError:
    """The same as an error of the operating system, with what to do."""
    assert is_no_thread(error)
    return OSError("no thread can be started: raise the limits of processes and memory (ulimit -u, ulimit -v; of a container, its pids)")
