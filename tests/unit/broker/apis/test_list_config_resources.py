"""ListConfigResources: topics and running brokers; the other types have no resources here."""

import pytest

from ottla.broker.apis.list_config_resources import API
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

TOPIC, BROKER = 2, 4


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([], [(BROKER, "1"), (TOPIC, "t")]),
        ([TOPIC], [(TOPIC, "t")]),
        ([TOPIC, BROKER, TOPIC], [(BROKER, "1"), (TOPIC, "t")]),
        ([8, 16, 32], []),
    ],
)
def test_resources_of_the_types_asked_for(one_api, metadata, brokers, types, expected) -> None:
    metadata.live_ids.discard(2)
    answer = one_api(API, brokers=brokers, cluster_metadata=metadata).ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=types)
    assert answer.error_code == 0
    assert [(each.resource_type, each.resource_name) for each in answer.config_resources] == expected


def test_version_0_asks_for_client_metrics(api, make_topic) -> None:
    make_topic("t")
    answer = api.ask(ApiKey.LIST_CONFIG_RESOURCES, 0)
    assert (answer.error_code, answer.config_resources) == (0, ())


@pytest.mark.parametrize("types", [[99], [TOPIC, 99]])
def test_an_unknown_type_is_refused(api, make_topic, types) -> None:
    make_topic("t")
    answer = api.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=types)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())
