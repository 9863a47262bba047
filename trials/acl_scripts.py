"""Seeded requests of ACLs, filters and decisions on Ottla and on one Apache Kafka: what they answer must be equal.

A seed creates some ACLs, asks what the client may do with some topics, asks with filters, deletes by filters, and asks again.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import BROKERS, make_broker

NAME = "acl-scripts"
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:admin",
}
"""Everything is allowed where no ACL is about it, so that a client without a password may administer."""
ATTEMPTS = 3
"""Apache Kafka answers before its authorizer knows a change: what it decides at once may be what it would have decided before."""
EVERYTHING = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
              "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip


def random_acl(rng: Random) -> dict[str, Any]:
    return {
        "resource_type": rng.choice([2, 2, 2, 3]),
        "resource_name": rng.choice(["*", "x", "xy", "xyz", "y"]),
        "resource_pattern_type": rng.choice([3, 3, 4]),
        "principal": rng.choice(["User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:other"]),
        "host": rng.choice(["*", "*", "127.0.0.1", "10.0.0.1"]),
        "operation": rng.choice([2, 3, 4, 7, 8, 10, 11]),
        "permission_type": rng.choice([2, 3, 3]),
    }


def random_filter(rng: Random) -> dict[str, Any]:
    acl = random_acl(rng)
    return {
        "resource_type_filter": rng.choice([1, acl["resource_type"]]),
        "resource_name_filter": rng.choice([None, acl["resource_name"]]),
        "pattern_type_filter": rng.choice([1, 2, 3, 4]),
        "principal_filter": rng.choice([None, None, acl["principal"]]),
        "host_filter": rng.choice([None, None, acl["host"]]),
        "operation": rng.choice([1, 1, acl["operation"]]),
        "permission_type": rng.choice([1, 1, acl["permission_type"]]),
    }


def described(client: RawClient, wanted: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    answer = client.call(ApiKey.DESCRIBE_ACLS, 3, **wanted)
    assert answer.error_code == 0
    return {
        (*(each.resource_type, each.resource_name, each.pattern_type), acl.principal, acl.host, acl.operation, acl.permission_type)
        for each in answer.resources
        for acl in each.acls
    }


def decisions(client: RawClient) -> dict[str, tuple[int, int]]:
    """What the client may do with each topic: the error, and the bit field."""
    topics = [{"topic_id": None, "name": name} for name in ("x", "xy", "xyzz", "y")]
    answer = client.call(
        ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )  # fmt: skip
    return {each.name: (int(each.error_code), each.topic_authorized_operations) for each in answer.topics}


class AclScripts:
    """Two brokers with CONFIG, and a client of each."""

    def __init__(self, bootstrap_servers: Sequence[str]) -> None:
        self._clients = [RawClient(servers, client_id="acls") for servers in bootstrap_servers]
        for client in self._clients:
            for name in ("x", "xy", "xyzz"):
                create_topic(client, name, 1)
            wait_until(lambda client=client: [error for error, _ in decisions(client).values()] == [0, 0, 0, 3], "topics")  # type: ignore[misc]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for client in self._clients:
            client.close()

    def differences(self, seed: int) -> list[str]:
        """What the brokers answer differently to the requests of a seed."""
        rng = Random(seed)
        creations = [random_acl(rng) for _ in range(rng.randrange(1, 12))]
        deletions = [random_filter(rng) for _ in range(2)]
        filters = [random_filter(rng) for _ in range(4)]
        found: list[str] = []
        for _ in range(ATTEMPTS):
            seen = [answers(client, creations, deletions, filters) for client in self._clients]
            found = [f"{what}: {seen[0][what]} and {seen[1][what]} of {creations}" for what in seen[0] if seen[0][what] != seen[1][what]]
            if not found:
                break
        return found


def answers(client: RawClient, creations: Sequence[Any], deletions: Sequence[Any], filters: Sequence[Any]) -> dict[str, Any]:
    """What one broker answers; no ACL is left."""
    seen: dict[str, Any] = {}
    seen["creations"] = [each.error_code for each in client.call(ApiKey.CREATE_ACLS, 3, creations=creations).results]
    seen["decisions"] = decisions(client)
    seen["filters"] = [described(client, each) for each in filters]
    deleted = client.call(ApiKey.DELETE_ACLS, 3, filters=deletions).filter_results
    seen["deletions"] = [(each.error_code, len(each.matching_acls)) for each in deleted]
    seen["later decisions"] = decisions(client)
    seen["the rest"] = described(client, EVERYTHING)
    client.call(ApiKey.DELETE_ACLS, 3, filters=[EVERYTHING])
    return seen


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which seeds."""
    add_seed_option(parser, "0-199", "a script each")


def run(options: argparse.Namespace, results: Results) -> None:
    """Run each seed on both brokers."""
    with TemporaryDirectory(prefix=f"ottla-{NAME}-") as directory:
        brokers = [make_broker(kind, Path(directory), CONFIG) for kind in BROKERS]
        try:
            for broker in brokers:
                broker.start()
            with AclScripts([broker.bootstrap_servers for broker in brokers]) as scripts:
                results.run_seeds(options.seed, lambda seed, _: Outcome(scripts.differences(seed)))
        finally:
            for broker in brokers:
                broker.kill()
