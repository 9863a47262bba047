"""The requests reach their handlers: what they prepare is there, and nothing is answered by a closed connection."""

import logging

import pytest

from ottla.broker import Broker
from ottla.testing.attacks import requests
from ottla.testing.attacks.target import Target


@pytest.mark.parametrize(
    "attack",
    [
        requests.metadata_of_one_topic,
        requests.metadata_of_all_topics,
        requests.offsets_of_one_group,
        requests.description_of_one_large_member,
        requests.changes_of_one_resource,
        requests.many_names,
        requests.many_items,
        requests.pipelined_requests,
        requests.creation_by_metadata,
        requests.creation_of_many_partitions,
        requests.use_of_many_partitions,
    ],
)
def test_every_request_is_answered(attack: object, caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker, caplog.at_level(logging.WARNING):
        assert attack(Target(broker.bootstrap_servers, scale=0.0005)) > 0  # type: ignore[operator]
    assert "closing the connection" not in caplog.text
