"""The ledger misses what is gone, and only that."""

from ottla.broker import Broker
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.fuzz.ledger import TOPIC, Ledger


def test_what_was_acknowledged_is_found() -> None:
    with Broker() as broker:
        ledger = Ledger()
        ledger.create(broker.bootstrap_servers)
        for _ in range(3):
            ledger.write(broker.bootstrap_servers)
        assert len(ledger.acknowledged) == 3
        assert ledger.missing(broker.bootstrap_servers) == []


def test_what_is_gone_is_missed() -> None:
    with Broker() as broker:
        ledger = Ledger()
        ledger.create(broker.bootstrap_servers)
        ledger.write(broker.bootstrap_servers)
        ledger.write(broker.bootstrap_servers)
        ledger.acknowledged[0] = b"another"
        ledger.acknowledged[7] = b"never there"
        assert ledger.missing(broker.bootstrap_servers) == [0, 7]
        with RawClient(broker.bootstrap_servers) as client:
            client.call(ApiKey.DELETE_TOPICS, 5, topic_names=[TOPIC], timeout=1000)
