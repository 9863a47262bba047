"""Verbs about transactions. With real clients: tests/examples/test_transactions.py."""

import asyncio

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from ottla.testing.raw_client import RawClient
from tests.support.clients.transaction_script import Script


def test_open_ones_are_seen_waited_for_and_aborted(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("orders", 2)
    ottla_broker.wait_for_no_transactions()
    with RawClient(ottla_broker.bootstrap_servers) as client:
        billing, shipping = (Script(client, "orders", name) for name in ("billing", "shipping"))
        for script in (billing, shipping):
            script.init()
        assert ottla_broker.transactions() == {}
        for script in (billing, shipping):
            script.add()
        billing.produce()
        opened = ottla_broker.transactions()
        assert list(opened) == ["billing", "shipping"]
        assert opened["billing"][:4] == ("billing", "Ongoing", billing.id, 0)
        assert (opened["billing"].partitions, opened["billing"].timeout_ms) == ((("orders", 0), ("orders", 1)), 60_000)
        with pytest.raises(AssertionError, match=r"no transaction to be open\. billing \(producer \d, epoch 0\) is Ongoing for .*shipping"):
            ottla_broker.wait_for_no_transactions(timeout=0)
        with pytest.raises(AssertionError, match=r"^biling has no open transaction; did you mean 'billing'\?\. billing .* is Ongoing"):
            ottla_broker.abort("biling")
        ottla_broker.abort("billing")
        assert list(ottla_broker.transactions()) == ["shipping"]
        assert ottla_broker.values("orders") == []
        billing.end()
        assert billing.said[-1] == ("end", ErrorCode.PRODUCER_FENCED)
        shipping.end()
        asyncio.run(ottla_broker.wait_for_no_transactions_async())
        with pytest.raises(AssertionError, match=r"shipping has no open transaction\. None is open"):
            ottla_broker.abort("shipping")


def test_a_transaction_outlives_a_restart(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("orders", 2)
    with RawClient(ottla_broker.bootstrap_servers) as client:
        script = Script(client, "orders", "billing")
        script.init()
        script.add()
    ottla_broker.restart()
    assert list(ottla_broker.transactions()) == ["billing"]
    ottla_broker.abort("billing")
    ottla_broker.wait_for_no_transactions(timeout=0)
