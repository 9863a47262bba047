"""What `ottla watch --metrics` serves, and that the alert rules and the dashboard in docs/monitoring ask for nothing else."""

import json
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.cli.watch_metrics import GroupsOfWatch, WatchState, bounded_lag_ms, count_incidents, serve, watch_metrics
from ottla.client.admin.values import CommittedOffset
from ottla.history.live import SETTLED_MS, LiveHistory
from ottla.history.sources.archive import ArchiveWriter
from ottla.history.watch import Watch
from ottla.log.files import OsFiles
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.model import TopicPartition
from ottla.testing.waiting import wait_until
from tests.support.kit.offsets_topic_records import classic_group, commit, member
from tests.support.kit.scripted_cluster import ScriptedCluster

MONITORING = Path(__file__).parents[3] / "docs/monitoring"
ONE, TWO = classic_group("g", 2, member("a", [0])), classic_group("g", 1, member("a", [0]), member("b"))


@pytest.fixture
def state(tmp_path: Path) -> WatchState:
    """A cluster in memory whose group lost a member, half a minute later: all through the code that watches."""
    now = 900
    cluster = ScriptedCluster()
    cluster.add("t", 0, *[(b"key", b"value")] * 20)
    cluster.add(CONSUMER_OFFSETS, 0, TWO, commit("g", 0, 4))
    cluster.set_group("g", "a", "b")
    cluster.offsets["g"] = {TopicPartition("t", 0): CommittedOffset(4)}
    archive, live = ArchiveWriter(OsFiles(tmp_path), now_ms=0), LiveHistory(now_ms=now)
    watch = Watch(admin=cluster, fetcher=cluster, archive=archive, groups=None, now_ms=lambda: now, say=lambda _: None, live=live)  # type: ignore[arg-type]
    watch.look()
    cluster.add(CONSUMER_OFFSETS, 0, ONE, commit("g", 0, 5))
    cluster.add("t", 0, *[(b"key", b"value")] * 10)
    cluster.set_group("g", "a")
    cluster.offsets["g"] = {TopicPartition("t", 0): CommittedOffset(25)}
    now = 1_500
    watch.look()
    now += SETTLED_MS
    watch.look()
    groups_of_watch = GroupsOfWatch("east")
    groups, ends = groups_of_watch.sample(watch, live.facts(watch.snapshots, now), now)
    by_group, by_kind = count_incidents(live.open_incidents(now), {"g"})
    archive.close()
    return WatchState(
        groups=groups,
        ends=ends,
        incidents=by_group,
        incidents_by_kind=by_kind,
        lag_ms=bounded_lag_ms(groups, live, now),
        summary=watch.summary,
        is_up=True,
        archive_bytes=5,
        alerts={"no members": 1},
        deliveries={("webhook", "sent"): 2, ("exec", "failed"): 1},
    )


@pytest.fixture
def url(state: WatchState) -> Iterator[str]:
    """Where it is served, of two clusters."""
    server = serve("127.0.0.1", 0, [("east", lambda: state), ("west", WatchState)], lambda: 60_000)
    yield f"http://127.0.0.1:{server.port}/metrics"
    server.close()


def served(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(url, timeout=10) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    assert len({family.name for family in families}) == len(families), "each name once"
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


def test_the_names_of_an_ottla_broker_and_of_other_tools(url: str) -> None:
    found = {(name, ",".join(f"{key}={text}" for key, text in sorted(labels))): value for (name, labels), value in served(url).items()}
    of = "cluster=east,group=g"
    assert found["ottla_group_members", of] == 1
    assert found["ottla_group_generation", of] == 2
    assert found["ottla_group_lag", f"{of},partition=0,topic=t"] == found["ottla_group_lag_sum", of] == 5
    assert found["ottla_group_offset_commits_total", of] == 1  # since the first look
    assert found["ottla_group_state", f"{of},state=Stable"] == 1
    # The record at 25 came with the last ten, after the first look.
    assert 0 < found["ottla_group_lag_seconds", f"{of},partition=0,topic=t"] == found["ottla_group_lag_seconds_max", of] < 31
    rebalances = {labels: value for (name, labels), value in found.items() if name == "ottla_group_rebalances_total"}
    assert sum(rebalances.values()) == 2
    assert any(labels.startswith("cause=COLD_START,") and labels.endswith("planned=true") for labels in rebalances)
    assert found["burrow_kafka_consumer_partition_lag", "cluster=east,consumer_group=g,partition=0,topic=t"] == 5
    assert found["kminion_kafka_consumer_group_topic_lag", "cluster=east,group_id=g,topic_name=t"] == 5
    assert found["kafka_consumergroup_lag", "cluster=east,consumergroup=g,partition=0,topic=t"] == 5
    assert found["kafka_topic_partition_current_offset", "cluster=east,partition=0,topic=t"] == 30
    assert (found["ottla_watch_up", "cluster=east"], found["ottla_watch_up", "cluster=west"]) == (1, 0)
    assert found["ottla_watch_alert_deliveries_total", "cluster=east,outcome=sent,way=webhook"] == 2
    names = {name for name, _ in found}
    assert not [name for name in names if name.startswith(("kafka_coordinator_", "kafka_server_")) or "expired" in name or "fenced" in name]
    assert not [name for name, _ in served(f"{url}/ottla") if not name.startswith("ottla_")]


def expressions() -> list[str]:
    """Of the rules, and of the dashboard with its variables set."""
    text = (MONITORING / "alerts.yml").read_text()
    folded = re.sub(r"expr: >-\n((?: {10}.*\n)+)", lambda found: f"expr: {' '.join(found[1].split())}\n", text)
    rules = re.findall(r"^ +expr: (.+)$", folded, re.MULTILINE)
    assert len(rules) == text.count("- alert:")
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    marks = [each["expr"] for each in dashboard["annotations"]["list"]]
    (group,) = [each["query"] for each in dashboard["templating"]["list"] if each["name"] == "group"]
    assert group == "label_values(ottla_group_members, group)"
    return [each.replace("$group", ".*") for each in (*rules, *panels, *marks)]


@pytest.mark.parametrize("expression", expressions())
def test_rules_and_dashboard_ask_for_what_is_served(expression: str, url: str) -> None:
    labels_of: dict[str, set[str]] = {}
    for name, labels in served(url):
        labels_of.setdefault(name, set()).update(label for label, _ in labels)
    names = re.findall(r"\bottla_\w+", expression)
    assert names
    known: set[str] = set()
    for name, selector in re.findall(r"\b(ottla_\w+)(\{[^}]*\})?", expression):
        assert name in labels_of, name
        assert set(re.findall(r"(\w+)\s*[=!]~?", selector)) <= labels_of[name], selector
        known |= labels_of[name]
    for listed in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        assert {label.strip() for label in listed.split(",")} <= known, listed


def test_every_metric_of_a_watch_is_documented() -> None:
    page = (MONITORING.parent / "metrics.md").read_text()
    for metric in watch_metrics(WatchState(archive_bytes=1)):
        name = metric.name + ("_total" if metric.type == "counter" else "")
        assert f"`{name}`" in page, name


def test_a_prometheus_reads_them_all(url: str, tmp_path: Path) -> None:
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        pytest.skip("there is no prometheus (Debian's package of this name has one)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    target = url.removeprefix("http://").removesuffix("/metrics")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(MONITORING / "alerts.yml")],
        "scrape_configs": [{"job_name": "watch", "honor_labels": True, "static_configs": [{"targets": [target]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    options = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address={address}"]

    def ask(path: str, **fields: str) -> Any:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(fields)}", timeout=5) as response:
            return json.load(response)["data"]

    def has_data(expression: str) -> bool:
        try:
            return bool(ask("query", query=expression)["result"])
        except OSError:
            return False

    with subprocess.Popen([prometheus, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: has_data("count_over_time(ottla_watch_up[1m]) > 2"), "it has scraped thrice", seconds=30)
            wait_until(
                lambda: all(rule["health"] == "ok" for group in ask("rules")["groups"] for rule in group["rules"]), "rules are sound"
            )
            dashboard = json.loads((MONITORING / "dashboard.json").read_text())
            asked = [target["expr"].replace("$group", ".*") for panel in dashboard["panels"] for target in panel["targets"]]
            assert [each for each in asked if not has_data(each)] == []
            firing = {alert["labels"]["alertname"] for alert in ask("alerts")["alerts"]}
            assert "WatchedClusterUnreachable" in firing
        finally:
            process.terminate()
