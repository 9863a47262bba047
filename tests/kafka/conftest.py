"""Our broker and Apache Kafka side by side: the same requests go to both, and what they answer must be the same.

What two brokers cannot share (ports, ids that each draws, times) is replaced by names before it is compared; the sentences beside an error
code, the order of topics and groups and a torn last batch of a Fetch are not compared; everything else is.
"""

import dataclasses
import datetime
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import split_batches
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import Disconnected, RawClient, create_topic
from ottla.testing.waiting import wait_until
from tests.support.reference.apache_kafka import KEEP_OLD_RECORDS, KafkaTools
from tests.support.reference.apache_kafka import TOOLS_LOG4J_YAML as LOG4J_YAML
from trials.group_scripts.comparison import differences

TOOLS_PROGRAM = Path(__file__).parent.parent / "java" / "KafkaTools.java"
CLIENT_ID = "differential"
NOT_YET = {14, 15, 16}
LEFT_OUT = {"throttle_time", "port", "cluster_id", "finalized_features", "finalized_features_epoch", "supported_features", "api_keys"}
UNORDERED = {"topics", "responses", "results", "configs", "groups", "members", "partitions"}
# Topic settings about replicas and remote storage: a broker that does none of these does not have them.
SETTINGS_OF_CLUSTERS = {
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "min.insync.replicas",
}
MEMBER_ID = re.compile(r"^.*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class Talk:
    """One conversation with one broker in one version of an API; remembers the answers in the form in which they are compared."""

    def __init__(self, bootstrap_servers: str, version: int, prefix: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.version = version
        self.prefix = prefix
        self.answers: list[Any] = []
        self._client = RawClient(bootstrap_servers, client_id=CLIENT_ID)
        self._placeholders: dict[Any, str] = {}

    def name(self, what: str) -> str:
        """A topic or group name of this conversation alone; both brokers hear the same one."""
        return f"{self.prefix}-{what}"

    def ask(self, api_key: int, version: int | None = None, **values: Any) -> Any:
        """Send one request, note its answer, and hand the answer out for the next request."""
        try:
            answer = self._client.call(api_key, self.version if version is None else version, **values)
        except Disconnected:
            self.answers.append("the broker closed the connection")
            self._client.close()
            self._client = RawClient(self.bootstrap_servers, client_id=CLIENT_ID)
            return None
        self.answers.append(self._comparable(answer))
        return answer

    def quietly(self, api_key: int, version: int, **values: Any) -> Any:
        """Send one request whose answer is not compared."""
        return self._client.call(api_key, version, **values)

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until the condition holds: Apache Kafka's answers about topics lag a little behind its controller."""
        wait_until(condition, what)

    def wait_for_coordinator(self, group: str) -> None:
        """Wait until the group's coordinator is there and has loaded."""
        self.until(lambda: self.quietly(ApiKey.FIND_COORDINATOR, 0, key=group).error_code not in NOT_YET, "a coordinator")
        self.until(lambda: self.quietly(ApiKey.DESCRIBE_GROUPS, 0, groups=[group]).groups[0].error_code not in NOT_YET, "a loaded one")

    def make_topic(self, topic: str, partitions: int = 1, **configs: str) -> uuid.UUID:
        """A topic that is ready to be written to; gives its id."""
        topic_id: uuid.UUID = create_topic(self._client, topic, partitions, **configs)
        asked = [{"partition_index": number, "timestamp": -1} for number in range(partitions)]

        def is_led() -> bool:
            (listed,) = self.quietly(ApiKey.LIST_OFFSETS, 1, replica_id=-1, topics=[{"name": topic, "partitions": asked}]).topics
            (seen,) = self.quietly(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False).topics
            return not any(each.error_code for each in (seen, *seen.partitions, *listed.partitions))

        self.until(is_led, f"leaders of {topic}")
        return topic_id

    def fill(self, topic: str, *batches: bytes) -> None:
        """Write batches to partition 0 of a topic."""
        for data in batches:
            partition_data = [{"index": 0, "records": bytes(data)}]
            answer = self.quietly(ApiKey.PRODUCE, 9, acks=-1, timeout=5000, topic_data=[{"name": topic, "partition_data": partition_data}])
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer

    def close(self) -> None:
        self._client.close()

    def _comparable(self, value: Any, field: str = "") -> Any:
        if dataclasses.is_dataclass(value):
            fields = [each.name for each in dataclasses.fields(value) if each.name not in LEFT_OUT]
            if getattr(value, "error_code", 0) != 0:
                fields = [name for name in fields if name != "error_message"]
            return {name: self._comparable(getattr(value, name), name) for name in fields}
        if isinstance(value, tuple):
            parts = [self._comparable(each, field) for each in value if getattr(each, "name", "") not in SETTINGS_OF_CLUSTERS]
            return sorted(parts, key=repr) if field in UNORDERED else parts
        if isinstance(value, uuid.UUID) or (isinstance(value, str) and MEMBER_ID.match(value)):
            return self._placeholders.setdefault(value, f"<id {len(self._placeholders)}>")
        if field == "records" and value is not None:
            return b"".join(value[at : at + header.size_bytes] for at, header in split_batches(value))
        if field == "error_message":
            return None if value in ("", "NONE") else value
        if field == "session_id" and value != 0:
            return "<a session>"
        if field == "producer_id" and value >= 0:
            return "<a producer id>"
        if isinstance(value, datetime.datetime) and value.year > 2000:
            return "<now>"
        return int(value) if isinstance(value, int) else value


@pytest.fixture(scope="session")
def kafka_tools(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    """Apache Kafka's command-line tools, in one JVM: to start one for a command line takes a second of CPU."""
    log4j = tmp_path_factory.mktemp("tools") / "log4j2.yaml"
    log4j.write_text(LOG4J_YAML)
    options = ("-Dfile.encoding=UTF-8", f"-Dlog4j2.configurationFile={log4j}")
    running = KafkaTools(reference.java_command(*options, str(TOOLS_PROGRAM)))
    yield running
    running.close()


@pytest.fixture(scope="session")
def run_tool(kafka_tools: KafkaTools) -> Callable[..., str]:
    """`run_tool("org.apache...", ...)` runs a class of Apache Kafka, which must succeed, and gives what it printed."""

    def run(tool: str, *arguments: str) -> str:
        printed = kafka_tools.run(tool, *arguments)
        assert printed.status == 0, printed.out + printed.err
        return printed.out

    return run


@pytest.fixture(scope="session")
def our_broker() -> Iterator[str]:
    """Our broker's bootstrap servers; it runs for the whole session, as Apache Kafka does."""
    from ottla.broker import Broker

    with Broker(config=KEEP_OLD_RECORDS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def both(reference: Any, our_broker: str) -> Mapping[str, str]:
    """The bootstrap servers of both brokers by their names."""
    return {"ottla": our_broker, "apache-kafka": reference.shared().bootstrap_servers}


@pytest.fixture
def same_answers(both: Mapping[str, str], unique_name: Callable[[str], str]) -> Callable[[Callable[[Talk], None], int], None]:
    """`same_answers(conversation, version)` holds the conversation with both brokers; every answer must be the same."""
    prefix = unique_name("x")

    def compare(conversation: Callable[[Talk], None], version: int) -> None:
        said: dict[str, list[Any]] = {}
        for kind, bootstrap_servers in both.items():
            talk = Talk(bootstrap_servers, version, prefix)
            conversation(talk)
            talk.close()
            said[kind] = talk.answers
        assert said["apache-kafka"], "a conversation without an answer compares nothing"
        found = list(differences(said["ottla"], said["apache-kafka"], "answer"))
        assert not found, "ours != Apache Kafka's:\n" + "\n".join(found)

    return compare
