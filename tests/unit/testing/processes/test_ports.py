"""Free ports: in a row, below the ports of outgoing connections, and not one that has a listener."""

import random
import socket
from pathlib import Path

import pytest

from ottla.testing.processes import ports
from ottla.testing.processes.ports import END, FIRST, free_ports


def test_they_can_be_bound_and_follow_each_other() -> None:
    first, second, third = free_ports(3)
    assert (second, third) == (first + 1, first + 2)
    assert first >= FIRST
    assert third < END
    for port in (first, second, third):
        socket.create_server(("127.0.0.1", port)).close()


def test_outgoing_connections_get_others() -> None:
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not limits.exists():
        pytest.skip("this system does not show the ports of its outgoing connections")
    assert int(limits.read_text().split()[0]) >= END


def test_a_seeded_test_does_not_choose_what_another_process_chooses() -> None:
    chosen = set()
    for _ in range(10):
        random.seed(1)
        chosen.add(free_ports(1)[0])
    assert len(chosen) > 1


def test_one_with_a_listener_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = free_ports(2)
    chosen = iter([taken, free])
    monkeypatch.setattr(ports._choose, "randrange", lambda _first, _end: next(chosen))
    with socket.create_server(("127.0.0.1", taken)):
        assert free_ports(1) == [free]


def test_none_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken,) = free_ports(1)
    monkeypatch.setattr(ports._choose, "randrange", lambda _first, _end: taken)
    with socket.create_server(("127.0.0.1", taken)), pytest.raises(OSError, match="no 1 free ports"):
        free_ports(1)
