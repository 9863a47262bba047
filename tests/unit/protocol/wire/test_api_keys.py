"""API keys: every key that kio has messages for, by Kafka's name."""

from kio.schema.index import api_key_map

from ottla.protocol.wire.api_keys import ApiKey


def test_names_and_keys_are_kios() -> None:
    assert {key.value: key.name.lower() for key in ApiKey} == dict(api_key_map)


def test_a_key_is_its_number() -> None:
    assert {18: "served"}[ApiKey.API_VERSIONS] == "served"
    assert f"API {ApiKey.API_VERSIONS}" == "API 18"
