"""Work that is handed to the brokers' loop from another thread."""

import pytest

from ottla.broker import Broker, Cluster
from ottla.core.config import ConfigError


def test_who_asks_before_the_start_is_told_how_to_start() -> None:
    with pytest.raises(RuntimeError, match=r"use `with Broker\(\) as broker:`"):
        _ = Broker().bootstrap_servers
    with pytest.raises(RuntimeError, match=r"use `with Cluster\(\) as cluster:`"):
        Cluster().stop_broker(1)


def test_what_the_loop_raises_is_raised_here() -> None:
    with Cluster(2) as cluster, pytest.raises(ConfigError, match="there is no broker 7: the brokers are 1, 2"):
        cluster.stop_broker(7)
    with pytest.raises(ConfigError, match="write a number from 1 to 100"):
        Cluster(0)


def test_health_is_that_of_all() -> None:
    with Cluster(2) as cluster:
        assert cluster.health.is_healthy
        assert cluster.metrics_url is None


def test_settings_may_be_numbers_and_flags() -> None:
    with Broker(config={"num.partitions": 3, "auto.create.topics.enable": False}) as broker:
        assert broker.bootstrap_servers
    with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
        Broker(config={"num_partition": 3})
    with pytest.raises(ConfigError, match=r"\(3\) > the number of brokers \(2\)"):
        Cluster(2, config={"default.replication.factor": 3})
