"""Ports for servers that have to know theirs before they start, and that start again where they were.

They are below the ports of outgoing connections and of servers that ask for any port: neither takes one while its server is not running.
"""

import random
import socket
from contextlib import ExitStack

FIRST = 10_000
END = 32_000
TRIES_MAX = 1_000

_choose = random.SystemRandom()  # not the generator that a test may have seeded: processes would choose the same ports


def free_ports(count: int) -> list[int]:
    """`count` ports of 127.0.0.1, each the next of the one before, without a listener now.

    Raises OSError where none are found.
    """
    for _ in range(TRIES_MAX):
        first = _choose.randrange(FIRST, END - count)
        ports = list(range(first, first + count))
        if _are_free(ports):
            return ports
    raise OSError(f"no {count} free ports in a row were found between {FIRST} and {END}")


def _are_free(ports: list[int]) -> bool:
    with ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
    return True
