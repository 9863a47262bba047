"""ApiVersions: the list is what is served, in every version, and for unknown versions."""

import pytest

from ottla.broker.api_registry import APIS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

# What Apache Kafka 4.3.0 advertises for the same APIs.
KAFKA_4_3 = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5),
    15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4),
    26: (0, 5), 27: (1, 2), 28: (0, 5), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4), 35: (1, 5), 36: (0, 2), 37: (0, 3),
    33: (0, 2), 34: (1, 2), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1),
    50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2),
    68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
}  # fmt: skip


@pytest.mark.parametrize("version", range(5))
def test_it_lists_what_kafka_lists(api, version: int) -> None:
    software = {"client_software_name": "test", "client_software_version": "1.0"} if version >= 3 else {}
    answer = api.ask(ApiKey.API_VERSIONS, version, **software)
    assert answer.error_code == ErrorCode.NONE
    assert {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys} == KAFKA_4_3


def test_an_unknown_version_is_answered_in_version_0_with_the_whole_list(api) -> None:
    async def ask() -> bytes:

        parts: list[bytes] = []
        found, request = api.dispatcher.read_request(memoryview(bytearray(b"\0\x12\0\x63\0\0\0\7\xff\xff")), api.session)
        request.send = parts.extend
        api.dispatcher.dispatch(found, request)
        return b"".join(parts)

    data = api.runner.run(ask())
    assert data[8:10] == (35).to_bytes(2, "big")
    assert int.from_bytes(data[10:14], "big") == len(APIS)


@pytest.mark.parametrize("version", [3, 4])
def test_the_feature_of_consumer_groups_is_on(api, version: int) -> None:
    answer = api.ask(ApiKey.API_VERSIONS, version, client_software_name="test", client_software_version="1.0")
    assert [(each.name, each.min_version_level, each.max_version_level) for each in answer.finalized_features] == [
        ("group.version", 1, 1),
        ("transaction.version", 2, 2),
    ]
    assert [(each.name, each.min_version, each.max_version) for each in answer.supported_features] == [
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
    ][: 2 * (version - 3)]


@pytest.mark.parametrize("name", ["", " ", "bad name", "-x"])
def test_software_that_has_no_name_is_refused(api, name: str) -> None:
    assert api.ask(ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version="1").error_code == ErrorCode.INVALID_REQUEST
