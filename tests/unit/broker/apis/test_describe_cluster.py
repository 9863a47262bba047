"""DescribeCluster: one broker, itself the controller."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.mark.parametrize("version", range(3))
def test_every_version(api, version: int) -> None:
    answer = api.ask(
        ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True, endpoint_type=1, include_fenced_brokers=False
    )
    assert (answer.error_code, answer.controller_id, answer.cluster_id) == (0, 1, api.cluster.cluster_id)
    assert [(broker.broker_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "127.0.0.1", 9092)]
    assert answer.cluster_authorized_operations == 8096


@pytest.mark.parametrize(("endpoint_type", "error"), [(2, 114), (9, 115)])
def test_controllers_are_asked_for_elsewhere(api, endpoint_type: int, error: int) -> None:
    answer = api.ask(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=False, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.brokers) == (error, ())
