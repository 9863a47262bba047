"""Keyword arguments: aiokafka's names and defaults, and what is refused."""

import asyncio
import inspect
import ssl
import threading
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from ottla.client.async_consumer.arguments import (
    DEFAULTS,
    OPAQUE_SECONDS,
    ConsumerArguments,
    ProviderTokens,
    bootstrap_servers,
    parse_arguments,
)
from ottla.client.engine.values import EARLIEST, LATEST
from ottla.client.network.connector import connect
from ottla.client.security.tokens import UnsecuredTokens
from ottla.groups.assignors import Assignment, Assignor


class OneForAll(Assignor):
    name = "one-for-all"

    def assign(self, members: Any, partitions: Any, racks: Any = None) -> Assignment:
        return {member.member_id: {} for member in members}


def test_names_and_defaults_are_aiokafkas() -> None:
    theirs = {
        name: parameter.default
        for name, parameter in inspect.signature(AIOKafkaConsumer.__init__).parameters.items()
        if name not in ("self", "topics", "loop")
    }
    assert ConsumerArguments.__annotations__.keys() == DEFAULTS.keys()
    assert DEFAULTS.keys() - {"group_protocol", "group_remote_assignor"} == theirs.keys()
    differ = {name for name, default in theirs.items() if DEFAULTS[name] != default}
    assert differ == {"client_id", "partition_assignment_strategy"}
    assert [each.name for each in theirs["partition_assignment_strategy"]] == list(DEFAULTS["partition_assignment_strategy"])


def test_the_defaults_as_settings() -> None:
    found = parse_arguments({"group_id": "g"})
    group = found.consumer.group
    assert (group.session_timeout_ms, group.heartbeat_interval_ms, group.longest_rebalance_ms) == (10_000, 3_000, 10_000)
    assert (found.consumer.reset, found.consumer.is_auto_commit, found.consumer.stores_resets) == (LATEST, True, True)
    assert (found.client.bootstrap_servers, found.client.request_timeout_ms) == ("localhost:9092", 40_000)
    assert found.consumer.api_timeout_ms == 40_000
    assert not found.client.is_read_committed
    assert [assignor.name for assignor in found.assignors] == ["roundrobin"]
    assert found.records_max is None


def test_arguments_as_settings() -> None:
    found = parse_arguments(
        {
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "rebalance_timeout_ms": 7_000,
            "max_poll_records": 5,
            "connections_max_idle_ms": None,
            "client_rack": "a",
            "group_instance_id": "one",
        }
    )
    assert found.consumer.reset == EARLIEST
    assert found.client.is_read_committed
    assert (found.consumer.group.longest_rebalance_ms, found.records_max, found.client.connections_max_idle_ms) == (7_000, 5, -1)
    assert (found.consumer.group.rack, found.consumer.group.instance_id) == ("a", "one")


def test_without_a_group_nothing_is_committed() -> None:
    found = parse_arguments({})
    assert found.consumer.group.group_id == ""
    assert not found.consumer.is_auto_commit


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("sticky", ["sticky"]),
        (["range", "cooperative-sticky"], ["range", "cooperative-sticky"]),
        ((RangePartitionAssignor,), ["range"]),
        ((OneForAll,), ["one-for-all"]),
    ],
)
def test_assignors(given: Any, names: list[str]) -> None:
    found = parse_arguments({"group_id": "g", "partition_assignment_strategy": given})
    assert [assignor.name for assignor in found.assignors] == names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": object()},
            "sasl_oauth_token_provider is needed with sasl_mechanism=OAUTHBEARER",
        ),
        ({"max_poll_records": 0}, "max_poll_records must be a positive whole number"),
        (
            {"exclude_internal_topics": False, "check_crcs": False, "fetch_min_bytes": "many"},
            "(?s)fetch_min_bytes must be a whole number.*\ncheck_crcs can only be true.*\nexclude_internal_topics can only be true",
        ),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}, "sasl_mechanism=GSSAPI is not supported"),
        ({"session_timeout_ms": 1_000}, "heartbeat.interval.ms"),
        ({"security_protocol": "SSL"}, "ssl_context is needed"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "sasl_plain_username and sasl_plain_password are needed"),
        ({"bootstrap_servers": "h:99999"}, "bootstrap.servers"),
        ({"auto_offset_reset": "first"}, "auto.offset.reset"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_arguments({"group_id": "g"} | given)


def test_an_unknown_name() -> None:
    with pytest.raises(TypeError, match=r"no argument 'group'; did you mean 'group_id'"):
        parse_arguments({"group": "g"})


def test_what_has_no_effect() -> None:
    given = {"consumer_timeout_ms": 500, "sasl_kerberos_service_name": "kafka", "sasl_kerberos_domain_name": "example.com"}
    assert parse_arguments({"group_id": "g"} | given).client == parse_arguments({"group_id": "g"}).client


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("localhost", "localhost:9092"),
        ("a:1, b", "a:1,b:9092"),
        (["a:1", "[::1]:2", "[::1]"], "a:1,[::1]:2,[::1]:9092"),
    ],
)
def test_servers(given: Any, text: str) -> None:
    assert bootstrap_servers(given) == text


def test_a_tls_context_of_the_application_and_a_password() -> None:
    context = ssl.create_default_context()
    found = parse_arguments(
        {
            "security_protocol": "SASL_SSL",
            "ssl_context": context,
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "u",
            "sasl_plain_password": "p",
        }
    )
    assert (found.client.security.username, found.client.security.password) == ("u", "p")
    assert found.connect.keywords == {"tls": context}  # type: ignore[attr-defined]
    assert parse_arguments({}).connect is connect


class Provider:
    def __init__(self, token: Any) -> None:
        self._token = token
        self.threads: list[threading.Thread] = []

    async def token(self) -> str:
        await asyncio.sleep(0)
        self.threads.append(threading.current_thread())
        if isinstance(self._token, Exception):
            raise self._token
        return str(self._token)

    def extensions(self) -> dict[str, str]:
        return {"traceId": "1"}


def ask(provider: Provider) -> Any:
    async def run() -> Any:
        tokens = ProviderTokens(provider, asyncio.get_running_loop(), clock_ns=lambda: 1_000_000_000_000)
        return await asyncio.to_thread(tokens, "")

    return asyncio.run(run())


def test_a_signed_token_says_when_it_expires() -> None:
    provider = Provider(UnsecuredTokens("alice", (("sub", "alice"),), life_seconds=60).fetch(2_000).value)
    value, expires_at, principal, extensions = ask(provider)
    assert (expires_at, principal, extensions) == (2_060, "alice", {"traceId": "1"})
    assert value.count(".") == 2
    assert provider.threads == [threading.current_thread()], "the loop's"


def test_another_token_is_used_for_a_while() -> None:
    assert ask(Provider("opaque")) == ("opaque", 1_000 + OPAQUE_SECONDS, "", {"traceId": "1"})


def test_what_a_provider_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="the identity provider is down"):
        ask(Provider(RuntimeError("the identity provider is down")))
