"""DescribeConfigs beside Apache Kafka's: every setting of brokers and topics, by requests and by kafka-configs.

Names, types, sources, synonyms, read-only and sensitive flags and values are equal, but for what MASKED names.
"""

import re
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.config import BROKER_SETTINGS, FIXED_VALUES
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until
from tests.support.reference.apache_kafka import ApacheKafka

pytestmark = pytest.mark.kafka

OWN = frozenset({"advertised.listeners", "listeners", "log.dirs"})
"""Ports and directories."""
OF_CONTROLLERS = frozenset({"controller.listener.names", "controller.quorum.bootstrap.servers", "listener.security.protocol.map"})
"""A single node of Kafka has a listener for its controller, and is told so."""
OTHER_DEFAULTS = frozenset({"group.initial.rebalance.delay.ms", "group.coordinator.rebalance.protocols"})
MASKED = OWN | OF_CONTROLLERS | OTHER_DEFAULTS | FIXED_VALUES.keys()
APPLIED_S_MAX = 30
DYNAMIC_BROKER_CONFIG = 2
LISTED = re.compile(r"^  (\S+?)=(.*?) sensitive=(true|false) synonyms=\{(.*)\}$", re.MULTILINE)

Described = Mapping[str, tuple[Any, ...]]


@pytest.fixture(scope="module")
def kafka(reference: Any) -> ApacheKafka:
    """The Apache Kafka that tests share."""
    broker: ApacheKafka = reference.shared()
    return broker


@pytest.fixture(scope="module")
def ottla(kafka: ApacheKafka) -> Any:
    """A broker with the settings of Kafka's that it has."""
    with Broker(config={name: value for name, value in kafka.config.items() if name in BROKER_SETTINGS}) as broker:
        yield broker


def masked_by(kafka: ApacheKafka) -> frozenset[str]:
    """What differs, and what the shared Kafka was given that has no effect here."""
    return MASKED | (kafka.config.keys() - BROKER_SETTINGS.keys())


def described(servers: str, kind: int, name: str) -> Described:
    with RawClient(servers) as client:
        asked = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked], include_synonyms=True, include_documentation=False).results
    assert (result.error_code, result.error_message) == (0, "")
    return {
        each.name: (
            each.value,
            each.read_only,
            each.config_source,
            each.is_sensitive,
            each.config_type,
            [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
        )
        for each in result.configs
    }


def alter(servers: str, kind: int, name: str, settings: Mapping[str, str | None]) -> None:
    """Set them, or delete those without a value."""
    with RawClient(servers) as client:
        configs = [{"name": key, "config_operation": 1 if value is None else 0, "value": value} for key, value in settings.items()]
        asked = {"resource_type": kind, "resource_name": name, "configs": configs}
        (result,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked], validate_only=False).responses
    assert result.error_code == 0, result.error_message


def create_topic(servers: str, name: str) -> None:
    asked = {
        "name": name,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": "segment.ms", "value": " 7"}],
    }
    with RawClient(servers) as client:
        (result,) = client.call(ApiKey.CREATE_TOPICS, 5, topics=[asked], timeout=10_000, validate_only=False).topics
    assert result.error_code == 0


def changed(found: Described) -> list[str]:
    """The settings that were changed while the broker ran."""
    return [name for name, each in found.items() if any(synonym[2] == DYNAMIC_BROKER_CONFIG for synonym in each[5])]


def test_every_setting_of_the_broker(kafka: ApacheKafka, ottla: Broker) -> None:
    # What other tests have changed and deleted again, Kafka's broker takes up later than its controller.
    wait_until(lambda: not changed(described(kafka.bootstrap_servers, 4, "1")), "no setting is changed", seconds=APPLIED_S_MAX)
    ours, theirs = described(ottla.bootstrap_servers, 4, "1"), described(kafka.bootstrap_servers, 4, "1")
    masked = masked_by(kafka)
    assert len(theirs) == 340
    names = (ours.keys() | theirs.keys()) - masked
    assert {name: (ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)} == {}
    for name in masked & theirs.keys():
        # Read-only and sensitive flags, type and default are the same.
        assert (ours[name][1], *ours[name][3:5]) == (theirs[name][1], *theirs[name][3:5]), name
        if name not in OTHER_DEFAULTS:
            defaults = [[each for each in found[name][5] if each[2] == 5] for found in (ours, theirs)]
            assert defaults[0] == defaults[1], name
    assert {name: ours[name][2] for name in OWN} == {name: theirs[name][2] for name in OWN}


def test_settings_that_were_changed(kafka: ApacheKafka, ottla: Broker, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    of_broker = {"log.roll.ms": " 86400000", "message.max.bytes": "1048588", "max.connections": "2000"}
    of_all = {
        "log.roll.ms": "86400001",
        "log.flush.interval.ms": "5000",
        "log.retention.ms": "-1",
        "log.cleaner.threads": "2",
        "max.connections": "1000",
    }
    names = {*of_broker, *of_all, "log.retention.hours", "log.roll.hours", "log.flush.scheduler.interval.ms"}

    def everything(servers: str) -> list[Described]:
        broker = {name: value for name, value in described(servers, 4, "1").items() if name in names}
        return [broker, described(servers, 4, ""), described(servers, 2, topic)]

    try:
        for servers in (ottla.bootstrap_servers, kafka.bootstrap_servers):
            create_topic(servers, topic)
            assert len(described(servers, 2, topic)) == 33
            alter(servers, 4, "1", of_broker)
            alter(servers, 4, "", of_all)
        ours, theirs = everything(ottla.bootstrap_servers), everything(kafka.bootstrap_servers)
        deadline = time.monotonic() + APPLIED_S_MAX
        while theirs != ours and time.monotonic() < deadline:  # Kafka's broker takes up what its controller has acknowledged
            time.sleep(0.02)
            theirs = everything(kafka.bootstrap_servers)
        assert ours == theirs
    finally:
        for servers in (ottla.bootstrap_servers, kafka.bootstrap_servers):
            alter(servers, 4, "1", dict.fromkeys(of_broker))
            alter(servers, 4, "", dict.fromkeys(of_all))


def test_kafka_configs_lists_all(reference: Any, ottla: Broker) -> None:
    asked = ["kafka.admin.ConfigCommand", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1", "--bootstrap-server"]
    command = reference.java_command("-Xmx256m", *asked, ottla.bootstrap_servers)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    listed = {name: (value, is_sensitive == "true") for name, value, is_sensitive, _ in LISTED.findall(ran.stdout)}
    found = described(ottla.bootstrap_servers, 4, "1")
    assert listed == {name: ("null" if value is None else value, is_sensitive) for name, (value, _, _, is_sensitive, *_) in found.items()}
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1, DEFAULT_CONFIG:min.insync.replicas=1" in ran.stdout
