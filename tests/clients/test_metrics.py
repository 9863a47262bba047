"""A scrape of two brokers with a group on them, as Prometheus makes it: what dashboards and alerts read is there, and it is true."""

import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker import Cluster
from ottla.testing.waiting import wait_until


def scraped(url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by name. Raises ValueError for what is not Prometheus' text format."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = answer.read().decode()
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "two sources share a name"
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in families:
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    for name, samples in found.items():
        assert len({tuple(sorted(labels.items())) for labels, _ in samples}) == len(samples), f"{name} has two values for the same labels"
    return found


def of_group(samples: dict[str, list[tuple[dict[str, str], float]]], name: str, group: str) -> dict[str, float]:
    """Values of one metric for one group, by the other labels' values."""
    label = {"burrow": "consumer_group", "kminion": "group_id", "kafka": "consumergroup"}.get(name.split("_")[0], "group")
    label = "group" if name.startswith("kafka_consumergroup_group") else label
    return {
        ",".join(value for key, value in sorted(labels.items()) if key not in (label, "cluster", "cluster_name")): value
        for labels, value in samples.get(name, [])
        if labels.get(label) == group
    }


@pytest.mark.conformance("GroupMetadataManagerTest.testUpdateGroupSizeCounter")
def test_a_scrape_has_a_groups_lag_and_each_rebalances_cause(library_on: Callable[..., Any], unique_name: Callable[[str], str]) -> None:
    group, topic = unique_name("group"), "flights"
    with Cluster(brokers=2, metrics="127.0.0.1:0", config={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        library = library_on(cluster)
        library.create_topic(topic, 2)
        library.produce(topic, [(number % 2, b"record") for number in range(10)])
        member = library.member(group, topic, "range")
        received: list[Any] = []
        wait_until(lambda: len(received) == 10, "every record", lambda: received.extend(member.poll()))
        member.commit()
        library.produce(topic, [(1, b"later")] * 4)
        url = str(cluster.metrics_url)

        samples: dict[str, list[tuple[dict[str, str], float]]] = {}

        def look() -> None:
            samples.clear()
            samples.update(scraped(url))

        wait_until(lambda: of_group(samples, "ottla_group_lag_sum", group) == {"": 4}, "the lag", look)
        assert of_group(samples, "ottla_group_lag", group) == {f"0,{topic}": 0, f"1,{topic}": 4}
        assert of_group(samples, "ottla_group_rebalances_total", group) == {"JOIN_NEW,unknown": 1}
        assert of_group(samples, "ottla_group_state", group)["Stable"] == 1
        assert of_group(samples, "ottla_group_offset_commits_total", group) == {"": 2}
        coordinator = cluster.coordinator(group).broker_id
        assert of_group(samples, "ottla_group_info", group) == {f"{coordinator},range,consumer": 1}
        assert sum(value for labels, value in samples["kafka_coordinator_group_groupmetadatamanager_numgroupsstable"]) == 1

        # The same under the names of other tools.
        assert of_group(samples, "kafka_consumergroup_lag", group) == {f"0,{topic}": 0, f"1,{topic}": 4}
        assert of_group(samples, "kminion_kafka_consumer_group_topic_lag", group) == {topic: 4}
        assert of_group(samples, "burrow_kafka_consumer_lag_total", group) == {"": 4}
        assert [value for name, value in of_group(samples, "kafka_consumergroup_group_lag", group).items() if topic in name] == [0, 4]
        assert all("rdkafka" in name for name in of_group(samples, "kafka_consumergroup_group_lag", group)), "with who reads it"
        assert "kafka_consumergroup_lag" not in scraped(url + "/ottla"), "who wants fewer series leaves the aliases out"

        member.close()
        wait_until(lambda: of_group(samples, "ottla_group_state", group).get("Empty") == 1, "an empty group", look)
        assert of_group(samples, "ottla_group_rebalances_total", group) == {"JOIN_NEW,unknown": 1, "LEAVE,unknown": 1}
        assert of_group(samples, "ottla_group_rebalances_ended_total", group) == {"completed": 1, "emptied": 1}
        assert of_group(samples, "ottla_group_lag_sum", group) == {"": 4}, "lag outlives the members"
