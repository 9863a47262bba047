"""Calls that the thread of a consumer makes for the main thread. Interrupts at any moment: test_interrupts.py."""

import signal
import threading
from types import FrameType

from ottla.client.consumer.calls import Calls


def test_a_signal_handler_is_not_made_to_wait_for_the_call_that_it_comes_into() -> None:
    calls, handled = Calls(threading.RLock(), lambda: None), threading.Event()
    calls.start()

    def call_again(number: int, frame: FrameType | None) -> None:
        calls.run(handled.set)

    def long_call() -> bool:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        return handled.wait(2)

    before = signal.signal(signal.SIGUSR1, call_again)
    try:
        assert calls.run(long_call), "the handler's own call ran meanwhile"
    finally:
        signal.signal(signal.SIGUSR1, before)
        calls.stop()
