"""No thread from the operating system, in words."""

from ottla.broker.thread_errors import is_no_thread, no_thread


def test_pythons_error_is_recognised() -> None:
    assert is_no_thread(RuntimeError("can't start new thread"))
    assert not is_no_thread(RuntimeError("cannot schedule new futures after shutdown"))
    assert not is_no_thread(OSError("can't start new thread"))


def test_the_sentence_says_what_to_do() -> None:
    assert "raise the limits" in str(no_thread(RuntimeError("can't start new thread")))
