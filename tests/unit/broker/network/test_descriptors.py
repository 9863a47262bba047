"""Descriptors: what connections may take, and that it is said once when none is left."""

import asyncio
import errno
import resource
import socket

import pytest

from ottla.broker.network.descriptors import (
    OTHERS_MIN,
    RAISED_MAX,
    Descriptors,
    check_limit,
    connections_max,
    descriptor_limit,
    limit_accept_errors,
    raise_limit,
)
from ottla.core.config import ConfigError


@pytest.mark.parametrize(
    ("limit", "files_max", "left"), [(1024, 256, 640), (256, 64, 160), (64, 16, 16), (1024, 0, 896), (20, 16, 5), (2, 16, 1)]
)
def test_connections_leave_some_for_files_and_all_else(limit: int, files_max: int, left: int) -> None:
    assert connections_max(limit, files_max) == left


def test_no_limit() -> None:
    descriptors = Descriptors(None, 100)
    descriptors.connections = 1_000_000
    assert descriptors.are_left


def test_the_limit_is_that_of_the_process() -> None:
    assert descriptor_limit() is None or descriptor_limit() > 2


def test_that_none_is_left_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def none() -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    descriptors = Descriptors(100, 10)
    descriptors.check()
    descriptors.check(none)
    descriptors.check(none)
    descriptors.check()
    descriptors.check()
    assert [message.split(":")[0] for message in caplog.messages] == ["no file descriptor is left", "file descriptors are free again"]


def test_the_check_keeps_no_descriptor_and_hides_no_other_error() -> None:
    made: list[socket.socket] = []

    def open_one() -> socket.socket:
        made.append(socket.socket())
        return made[-1]

    descriptors = Descriptors(100, 10)
    descriptors.check(open_one)
    assert made[0].fileno() == -1

    def broken() -> socket.socket:
        raise OSError(errno.ENOMEM, "no memory")

    with pytest.raises(OSError, match="no memory"):
        descriptors.check(broken)


def test_so_few_descriptors_are_not_enough_to_start() -> None:
    check_limit(None)
    check_limit(OTHERS_MIN)
    with pytest.raises(ConfigError, match=f"may have 10 files open, and a broker needs {OTHERS_MIN} at least"):
        check_limit(10)


def test_a_loop_that_cannot_accept_says_so_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    limit_accept_errors(loop)
    for _ in range(5):
        loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": OSError(errno.EMFILE, "Too many")})
    loop.call_exception_handler({"message": "another one", "exception": ZeroDivisionError()})
    loop.close()
    assert [message.partition(":")[0] for message in caplog.messages] == ["connections are not accepted", "another one"]


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [(1024, 4096, (4096, 4096)), (1024, -1, (RAISED_MAX, -1)), (1024, RAISED_MAX * 2, (RAISED_MAX, RAISED_MAX * 2)), (1024, 1024, None)],
)
def test_a_broker_of_its_own_process_raises_its_limit(
    soft: int, hard: int, raised: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: given.append(limits))
    raise_limit()
    assert given == ([] if raised is None else [raised])


def test_a_limit_that_cannot_be_raised_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_which: int, _limits: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, -1))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit()
