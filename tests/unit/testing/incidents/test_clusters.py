"""Ottla's cluster for incidents: starts again on the same ports with other settings, moves coordinators, and keeps its events."""

import json
from pathlib import Path

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.clients.raw_member import RawMember
from ottla.testing.clients.topics import create_topic
from ottla.testing.incidents.clusters import OttlaCluster


def test_a_restart_keeps_ports_and_data(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path, tmp_path) as cluster:
        servers = cluster.servers
        create_topic(servers.split(",")[0], "t")
        cluster.restart(group_max_size="2")
        assert cluster.servers == servers
        with RawClient(servers) as client:
            assert [topic.name for topic in client.call(ApiKey.METADATA, 1, topics=None).topics if topic.name == "t"] == ["t"]
    assert cluster.data_directory.is_dir()


def test_coordinators_move_and_events_are_kept(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path, tmp_path) as cluster:
        for server in cluster.servers.split(","):
            with RawClient(server) as client:
                found = client.call(ApiKey.FIND_COORDINATOR, 0, key="g")
        member = RawMember(f"{found.host}:{found.port}", "g")
        assert member.join().error_code == 0
        cluster.move_coordinators(["g"])
        with RawClient(cluster.servers) as client:
            assert client.call(ApiKey.FIND_COORDINATOR, 0, key="g").port != found.port
        member.close()
    kinds = {json.loads(line)["kind"] for line in cluster.event_lines()}
    assert {"trigger", "join_completed"} <= kinds
    assert "g" in cluster.log_path.read_text()
