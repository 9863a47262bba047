"""From a new consumer to its first record: `Consumer(...)`, `subscribe`, first record in hand; a new group each time, one record waiting.

With the default session of 45 s, and with 6 s: some brokers make a new group wait for a part of its session.
"""

import time
from typing import Any

from confluent_kafka import Consumer, Producer
from peers import QUIET, arguments, make_topic, running_peers
from report import Metric, Report, at_most

SESSION_45 = Metric("new consumer to first record, session 45 s", "ms", "<= 200 ms", at_most(200))
SESSION_6 = Metric("new consumer to first record, session 6 s", "ms", "<= 200 ms", at_most(200))
TOPIC = "join"
WAIT_SECONDS_MAX, WAIT_SECONDS_MAX_SMALL = 60, 4


def first_record_ms(peer: Any, group: str, session_ms: int, seconds_max: float) -> float | None:
    """Milliseconds until the first record, None when there is none in time."""
    settings = {"group.id": group, "session.timeout.ms": session_ms, "auto.offset.reset": "earliest"}
    begin = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": peer.bootstrap_servers, **QUIET, **settings})
    consumer.subscribe([TOPIC])
    deadline = begin + seconds_max
    message = None
    while message is None and time.perf_counter() < deadline:
        message = consumer.poll(0.1)
    waited = time.perf_counter() - begin
    consumer.close()
    if message is None:
        return None
    assert message.error() is None, message.error()
    return waited * 1000


def main() -> None:
    wanted = arguments(__doc__)
    report = Report("Join")
    seconds_max = WAIT_SECONDS_MAX_SMALL if wanted.small else WAIT_SECONDS_MAX
    with running_peers(wanted.peers) as peers:
        for peer in peers:
            make_topic(peer, TOPIC, 1)
            producer = Producer({"bootstrap.servers": peer.bootstrap_servers, **QUIET})
            producer.produce(TOPIC, b"first", partition=0)
            assert producer.flush(10) == 0
            first_record_ms(peer, "warm-up", 6000, seconds_max)
        for number in range(wanted.rounds):
            for peer in peers:
                for metric, session_ms in ((SESSION_6, 6_000), (SESSION_45, 45_000)):
                    took = first_record_ms(peer, f"group-{session_ms}-{number}", session_ms, seconds_max)
                    if took is None:
                        report.note(f"{peer.kind}: no record within {seconds_max} s ({metric.name})")
                    else:
                        report.add(metric, peer.kind, took)
    report.finish(wanted.json)


if __name__ == "__main__":
    main()
