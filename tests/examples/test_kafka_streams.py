"""A recipe of docs/transactions.md: a Kafka Streams application with exactly_once_v2 that is killed (tests/java/WordCount.java)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.processes import ToolMissing
from ottla.testing import Broker
from ottla.testing.waiting import wait_until
from tests.support.processes import JavaProgram, compile_java
from tests.support.reference.apache_kafka import VERSION
from tests.support.reference.maven import fetch_jars

CHECKOUT = Path(__file__).parents[2]
StartWordCount = Callable[[str], JavaProgram]


@pytest.fixture
def word_count(reference: Any, tmp_path: Path) -> StartWordCount:
    """Starts the application, on the state that the one before left; skipped where Maven or a JDK is missing."""
    try:
        cache = CHECKOUT / ".cache" / f"kafka-streams-{VERSION}"
        (jar,) = fetch_jars([f"org.apache.kafka:kafka-streams:{VERSION}"], cache, what=f"Kafka Streams {VERSION}", are_alone=True)
        class_path = compile_java(CHECKOUT / "tests" / "java" / "WordCount.java", f"{reference.class_path()}:{jar}", tmp_path)
    except ToolMissing as missing:
        pytest.skip(f"Kafka Streams {missing}")

    def start(bootstrap_servers: str) -> JavaProgram:
        arguments = (bootstrap_servers, "words", "lines", "counts", str(tmp_path / "state"))
        return JavaProgram("WordCount", class_path, arguments=arguments, error_path=tmp_path / "errors")

    return start


@pytest.mark.kafka
def test_a_word_count_that_is_killed(ottla_broker_factory: Callable[..., Broker], word_count: StartWordCount) -> None:
    broker = ottla_broker_factory({"num.partitions": 2, "group.min.session.timeout.ms": 1_000, "group.initial.rebalance.delay.ms": 0})
    broker.produce("lines", ["a b c a"] * 100)
    with word_count(broker.bootstrap_servers) as killed:
        broker.consume("counts", 400, timeout=120)
        broker.produce("lines", ["a b c a"] * 1_000)
        wait_until(broker.transactions, "a transaction to be open")
        killed.kill()
    for transactional_id in broker.transactions():  # as after transaction.timeout.ms, for which the next instance would wait
        broker.abort(transactional_id)
    assert len(broker.values("counts")) < 4_400, "it was killed in the middle"
    broker.produce("lines", ["a b"] * 100)
    with word_count(broker.bootstrap_servers):
        broker.consume("counts", 4_600, timeout=120)
    expected = {b"a": 2_300, b"b": 1_200, b"c": 1_100}
    counted = [b"%s %d" % (word, number) for word, count in expected.items() for number in range(1, count + 1)]
    assert sorted(broker.values("counts"), key=str) == sorted(counted, key=str)
