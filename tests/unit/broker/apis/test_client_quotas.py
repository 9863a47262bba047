"""DescribeClientQuotas and AlterClientQuotas, and how requests above a quota are throttled: Kafka's ClientQuotasRequestTest and others."""

import socket
import time
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.broker.network.throttling import Throttling
from ottla.log.file_system import MemoryFiles
from ottla.metadata.client_quotas import ClientQuotas
from ottla.metadata.records import ClientQuotaRecord, QuotaEntity
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Principal
from tests.unit.broker.conftest import Asking


def parts(text: str) -> list[dict[str, Any]]:
    return [
        {"entity_type": kind, "entity_name": None if name == "*" else name}
        for kind, _, name in (part.partition("=") for part in text.split())
    ]


def alter(api: Any, *entries: tuple[str, dict[str, float | None]], validate_only: bool = False, version: int = 1) -> list[tuple[int, Any]]:
    asked = [
        {"entity": parts(text), "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in ops.items()]}
        for text, ops in entries
    ]
    answer = api.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=asked, validate_only=validate_only)
    return [(each.error_code, each.error_message) for each in answer.entries]


def described(api: Any, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    wanted = [{"entity_type": kind, "match_type": match_type, "match": match} for kind, match_type, match in components]
    answer = api.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=wanted, strict=strict)
    if answer.error_code != ErrorCode.NONE:
        return answer.error_code, answer.error_message
    return {
        " ".join(f"{part.entity_type}={part.entity_name or '*'}" for part in each.entity): {value.key: value.value for value in each.values}
        for each in answer.entries
    }


OK = (ErrorCode.NONE, None)


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_described_and_removed(api, version: int) -> None:
    first = ("user=alice", {"producer_byte_rate": 1000.0, "request_percentage": 1.5})
    assert alter(api, first, ("client-id=* user=*", {"consumer_byte_rate": 5.0}), version=version) == [OK, OK]
    both = {"user=alice": first[1], "client-id=* user=*": {"consumer_byte_rate": 5.0}}
    assert described(api, version=version) == both
    assert described(api, ("user", 0, "alice"), version=version) == {"user=alice": first[1]}
    assert described(api, ("user", 1, None), version=version) == {"client-id=* user=*": {"consumer_byte_rate": 5.0}}
    assert described(api, ("user", 2, None), version=version) == both
    assert described(api, ("user", 2, None), strict=True, version=version) == {"user=alice": first[1]}
    assert alter(api, ("user=alice", {"producer_byte_rate": None}), validate_only=True, version=version) == [OK]
    assert described(api, version=version) == both
    assert alter(api, ("user=alice", {"producer_byte_rate": None, "request_percentage": None}), version=version) == [OK]
    assert list(described(api, version=version)) == ["client-id=* user=*"]


def test_what_cannot_be_set_is_refused_and_the_rest_is_set(api) -> None:
    twice = ("user=bob", {"producer_byte_rate": 1.0})
    results = alter(api, ("user=alice", {"producer_byte_rate": -1.0}), twice, twice, ("ip=10.0.0.1", {"connection_creation_rate": 5.0}))
    duplicate = (ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity ClientQuotaEntity(entries={user=bob})")
    assert results == [(ErrorCode.INVALID_REQUEST, "Quota producer_byte_rate must be greater than 0"), duplicate, duplicate, OK]
    assert described(api) == {"ip=10.0.0.1": {"connection_creation_rate": 5.0}}


@pytest.mark.parametrize(
    ("components", "code", "message"),
    [
        ([("", 0, "x")], 42, "Invalid empty entity type."),
        ([("user", 0, "x"), ("user", 2, None)], 42, "Entity type user cannot appear more than once in the filter."),
        ([("group", 0, "x")], 35, "Unsupported entity type group"),
        ([("user", 0, None)], 42, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", 1, "x")], 42, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", 2, "x")], 42, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("user", 9, None)], 42, "Unknown match type 9"),
        (
            [("user", 2, None), ("ip", 2, None)],
            42,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.",
        ),
    ],
)
def test_filters_that_make_no_sense(api, components: list[tuple[str, int, str | None]], code: int, message: str) -> None:
    assert described(api, *components) == (code, message)


def test_quotas_outlive_the_broker(make_api) -> None:
    files = MemoryFiles()
    alter(make_api(files=files), ("user=alice", {"producer_byte_rate": 1000.0}), ("user=bob", {"producer_byte_rate": 1.0}))
    alter(make_api(files=files), ("user=bob", {"producer_byte_rate": None}))
    assert described(make_api(files=files)) == {"user=alice": {"producer_byte_rate": 1000.0}}


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(api) -> Clock:
    """The clock of the quotas."""
    clock, quotas = Clock(), api.cluster.cluster_metadata.client_quotas
    throttling = Throttling(quotas, clock, windows=(11, 1), controller_windows=(11, 1))
    api.use(throttling={1: throttling})
    return clock


def millis(answer: Any) -> int:
    return round(answer.throttle_time.total_seconds() * 1000)


def produce(api: Any, batch: Any, version: int, bytes_: int) -> int:
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(bytes(bytes_))}]}]
    return millis(api.ask(ApiKey.PRODUCE, version, transactional_id=None, acks=-1, timeout=1000, topic_data=data))


@pytest.mark.parametrize("version", [3, 9])
def test_a_producer_above_its_quota_is_throttled(api, make_topic, batch, clock: Clock, version: int) -> None:
    make_topic()
    assert produce(api, batch, version, 20_000) == 0, "without a quota"
    alter(api, ("user=ANONYMOUS", {"producer_byte_rate": 1000.0}))
    assert produce(api, batch, version, 5_000) == 0
    assert 10_000 <= produce(api, batch, version, 15_000) <= 11_000, "some 20 kB in at least ten windows of a second, for 1 kB/s"
    clock.now_s = 40
    assert produce(api, batch, version, 5_000) == 0
    api.session.principal = Principal("User", "bob")
    assert produce(api, batch, version, 30_000) == 0


@pytest.mark.parametrize("version", [4, 12])
def test_a_consumer_above_its_quota_is_throttled(api, make_topic, batch, clock: Clock, version: int) -> None:
    make_topic()
    produce(api, batch, 9, 30_000)
    part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1, "log_start_offset": -1}
    fetch = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0, "session_id": 0, "session_epoch": -1, "rack_id": ""}
    topics = [{"topic": "t", "partitions": [part | {"partition_max_bytes": 1 << 20}]}]
    alter(api, ("client-id=test", {"consumer_byte_rate": 1000.0}))
    answer = api.ask(ApiKey.FETCH, version, **fetch, replica_id=-1, forgotten_topics_data=[], topics=topics)
    assert 20_000 <= millis(answer) <= 21_000
    assert answer.responses[0].partitions[0].records


@pytest.mark.parametrize(("key", "version", "fields"), [
    (ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": []}),
    (ApiKey.LIST_GROUPS, 4, {"states_filter": []}),
    (ApiKey.LIST_GROUPS, 2, {}),
])  # fmt: skip
def test_every_response_has_its_throttle_time(api, clock: Clock, key: ApiKey, version: int, fields: dict[str, Any]) -> None:
    alter(api, ("user=*", {"request_percentage": 1.0}))
    handle = api.dispatchers[1]._apis[key].handle

    def slowly(request: Any) -> None:
        clock.now_s += 0.2
        handle(request)

    object.__setattr__(api.dispatchers[1]._apis[key], "handle", slowly)
    assert millis(api.ask(key, version, **fields)) == 1000, "20 % of ten seconds of one percent, one window at most"


def create(api: Any, version: int, **topics: int) -> tuple[list[int], int]:
    asked = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []} for name, count in topics.items()
    ]
    answer = api.ask(ApiKey.CREATE_TOPICS, version, topics=asked, timeout=1000, validate_only=False)
    return [each.error_code for each in answer.topics], millis(answer)


def test_partitions_above_the_quota_are_not_created(api, clock: Clock) -> None:
    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    alter(api, ("user=*", {"controller_mutation_rate": 1.0}))
    assert create(api, 7, first=15) == ([ErrorCode.NONE], 0), "11 tokens were there"
    assert create(api, 7, second=1, first=1) == ([exceeded, ErrorCode.TOPIC_ALREADY_EXISTS], 4000)
    more = [{"name": "first", "count": 16, "assignments": None}]
    extended = api.ask(ApiKey.CREATE_PARTITIONS, 3, topics=more, timeout=1000, validate_only=False)
    assert (extended.results[0].error_code, millis(extended)) == (exceeded, 4000)
    deleted = api.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["first"], timeout=1000)
    assert (deleted.responses[0].error_code, millis(deleted)) == (exceeded, 4000)
    assert create(api, 5, old=2) == ([ErrorCode.NONE], 6000), "an old client's topic is created, and the client waits"
    clock.now_s = 6
    assert create(api, 7, second=1) == ([ErrorCode.NONE], 0)


def test_new_client_ids_are_counted_within_bounds() -> None:
    quotas = ClientQuotas()
    assert not Throttling(quotas, Clock(), windows=(11, 1), controller_windows=(11, 1)).is_active
    entity = (QuotaEntity(entity_type="ip", entity_name=None),)
    quotas.replay(ClientQuotaRecord(entity=entity, key="connection_creation_rate", value=1.0, remove=False))
    assert not Throttling(quotas, Clock(), windows=(11, 1), controller_windows=(11, 1)).is_active


def test_a_connection_that_is_throttled_is_not_read_for_so_long(batch) -> None:
    produce = {
        "transactional_id": None, "acks": 1, "timeout": 1000,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch(bytes(10_300))}]}],
    }  # fmt: skip
    entity = {"entity_type": "client-id", "entity_name": None}
    ops = [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]
    quotas = {"entries": [{"entity": [entity], "ops": ops}], "validate_only": False}
    requests = [(ApiKey.ALTER_CLIENT_QUOTAS, 1, quotas), (ApiKey.PRODUCE, 9, produce), (ApiKey.LIST_GROUPS, 4, {"states_filter": []})]

    def read(stream: Any) -> bytes:
        return stream.read(int.from_bytes(stream.read(4), "big"))  # type: ignore[no-any-return]

    with Broker() as broker:
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as client, client.makefile("rb") as stream:
            for key, version, fields in requests:
                frame = Asking.encode(key, version, fields)
                client.sendall(len(frame).to_bytes(4, "big") + frame)
            read(stream)
            throttled = int.from_bytes(read(stream)[-5:-1], "big")
            answered_s = time.monotonic()
            read(stream)
            waited_s = time.monotonic() - answered_s
    assert 300 <= throttled <= 600
    assert throttled / 1000 - 0.1 <= waited_s
