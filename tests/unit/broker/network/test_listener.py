"""What connections share."""

from typing import Any

from ottla.broker.network.listener import RECEIVE_BYTES, Listener
from ottla.broker.network.request_memory import SHORT_READ_BYTES


def test_reads_while_memory_is_short_use_part_of_the_same_buffer() -> None:
    none: Any = None
    listener = Listener(
        dispatcher=none,
        quotas=none,
        frame_bytes_max=100,
        event_loop_batch=none,
        pipelining=none,
        request_memory=none,
        response_memory=none,
    )
    assert (len(listener.receive_buffer), len(listener.short_receive_buffer)) == (RECEIVE_BYTES, SHORT_READ_BYTES)
    listener.short_receive_buffer[0] = 7
    assert listener.receive_buffer[0] == 7
