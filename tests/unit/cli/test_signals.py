"""Tests of signals that end a command."""

import os
import signal

import pytest

from ottla.cli.signals import Stopped, StopRequest, raising_stopped

HANDLERS = (signal.SIGINT, signal.SIGTERM)


def handlers() -> list[object]:
    return [signal.getsignal(each) for each in HANDLERS]


@pytest.mark.parametrize("number", HANDLERS)
def test_the_first_signal_raises_and_the_next_ones_do_not_interrupt(number: int) -> None:
    before = handlers()
    with raising_stopped():
        with pytest.raises(Stopped):
            os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGTERM)
    assert handlers() == before


@pytest.mark.parametrize("number", HANDLERS)
def test_a_request_is_remembered_and_a_second_signal_would_end_the_process(number: int) -> None:
    before = handlers()
    with StopRequest() as stop:
        assert not stop.is_set
        os.kill(os.getpid(), number)
        assert stop.is_set
        assert handlers() == [signal.SIG_DFL, signal.SIG_DFL]
    assert handlers() == before
