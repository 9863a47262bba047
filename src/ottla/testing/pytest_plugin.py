"""pytest fixtures for users of Ottla: a broker for one test, and one for the whole session.

def test_it(ottla_broker):
    Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.broker import Broker


@pytest.fixture
def ottla_broker() -> "Iterator[Broker]":
    """A fresh broker in memory, for this test alone."""
    from ottla.broker import Broker  # loaded by the tests that ask for it, not by every pytest run

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_broker_session() -> "Iterator[Broker]":
    """One broker in memory for the whole test session: faster, and shared; give topics and groups names of their own."""
    from ottla.broker import Broker

    with Broker() as broker:
        yield broker
