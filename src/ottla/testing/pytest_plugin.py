"""pytest fixtures for users of Ottla: a broker for one test, brokers with settings of their own, and one for the whole session.

def test_it(ottla_broker):
    Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import pytest

if TYPE_CHECKING:
    from ottla.config import GivenValue
    from ottla.groups.events import GroupEvent
    from ottla.testing import Broker, Cluster, SecuredBroker


class BrokerFactory(Protocol):
    """`ottla_broker_factory`: each call starts a broker, or with `brokers` a cluster of so many.

    They have these settings (Kafka's names); the callback gets every GroupEvent, in the broker's thread. With `topics_at_once=False` a
    topic that a client creates by asking for it is unknown in the first answer, as with Kafka.
    """

    @overload
    def __call__(  # type: ignore[overload-overlap]  # 1 is a number, too
        self,
        config: "Mapping[str, GivenValue] | None" = None,
        *,
        brokers: Literal[1] = 1,
        on_group_event: "Callable[[GroupEvent], None] | None" = None,
        topics_at_once: bool = True,
    ) -> "Broker": ...
    @overload
    def __call__(
        self,
        config: "Mapping[str, GivenValue] | None" = None,
        *,
        brokers: int,
        on_group_event: "Callable[[GroupEvent], None] | None" = None,
        topics_at_once: bool = True,
    ) -> "Cluster": ...


@pytest.fixture
def ottla_broker() -> "Iterator[Broker]":
    """A fresh broker in memory, for this test alone."""
    from ottla.testing import Broker  # loaded by the tests that ask for it, not by every pytest run

    with Broker() as broker:
        yield broker


@pytest.fixture
def ottla_broker_factory() -> Iterator[BrokerFactory]:
    """Starts brokers in memory with settings of their own; they stop at the end of the test."""
    from ottla.testing import Broker, Cluster

    with ExitStack() as running:

        def start(
            config: "Mapping[str, GivenValue] | None" = None,
            *,
            brokers: int = 1,
            on_group_event: "Callable[[GroupEvent], None] | None" = None,
            topics_at_once: bool = True,
        ) -> Any:
            if brokers == 1:
                return running.enter_context(Broker(config=config, on_group_event=on_group_event, topics_at_once=topics_at_once))
            return running.enter_context(Cluster(brokers, config=config, on_group_event=on_group_event, topics_at_once=topics_at_once))

        yield start


@pytest.fixture
def ottla_broker_tls() -> "Iterator[SecuredBroker]":
    """A fresh broker whose clients speak TLS; certificates are made for it. `client_settings(...)` are those of a client."""
    from ottla.testing import SecuredBroker

    with SecuredBroker(listener="SSL") as broker:
        yield broker


@pytest.fixture
def ottla_broker_sasl() -> "Iterator[SecuredBroker]":
    """A fresh broker whose clients log in over TLS: PLAIN, SCRAM or OAUTHBEARER, as user alice. `client_settings(...)` are those of a
    client."""
    from ottla.testing import SecuredBroker

    with SecuredBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_broker_session() -> "Iterator[Broker]":
    """One broker in memory for the whole test session: faster, and shared; give topics and groups names of their own."""
    from ottla.testing import Broker

    with Broker() as broker:
        yield broker
