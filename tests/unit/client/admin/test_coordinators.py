"""Calls to the coordinators of many groups: found together, called together, retried where they moved."""

from collections.abc import Mapping
from typing import Any

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.coordinators import GROUPS_MAX, call_coordinators
from ottla.client.admin.values import Failure
from ottla.client.errors import BrokerUnavailableError
from ottla.core.errors import ErrorCode
from ottla.core.wire.api_keys import ApiKey


class Cluster:
    """Two brokers; `places` has the coordinator of each group, `codes` the errors of FindCoordinator."""

    def __init__(self, scripted: Any, places: Mapping[str, int]) -> None:
        self.places = dict(places)
        self.codes: dict[str, list[int]] = {}
        self.lookups: list[tuple[str, ...]] = []
        for place in ("a:1", "b:2"):
            scripted.broker(place, self.answer)

    def answer(self, api_key: int, request: Any) -> Any:
        assert api_key == ApiKey.FIND_COORDINATOR
        self.lookups.append(request.coordinator_keys)
        return {"coordinators": [self._found(key) for key in request.coordinator_keys]}

    def _found(self, key: str) -> dict[str, Any]:
        code = self.codes[key].pop(0) if self.codes.get(key) else 0
        node = self.places[key]
        return {"key": key, "node_id": node, "host": "ab"[node - 1], "port": node, "error_code": code, "error_message": None}


def test_each_coordinator_gets_one_request_for_all_its_groups(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1, "h": 2, "i": 1})
    asked = []

    def ask(connection: Any, node: BrokerEndpoint, names: list[str]) -> dict[str, Any]:
        asked.append((connection.name, node.broker_id, names))
        return {name: f"{name} of {node.broker_id}" for name in names}

    found = call_coordinators(scripted.brokers(), "describes", ["i", "g", "h", "g"], ask)
    assert list(found.items()) == [("i", "i of 1"), ("g", "g of 1"), ("h", "h of 2")]
    assert cluster.lookups == [("i", "g", "h")]
    assert asked == [("a:1", 1, ["i", "g"]), ("b:2", 2, ["h"])]


def test_a_group_whose_coordinator_moved_is_looked_up_again_and_the_others_are_not(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1, "h": 1})

    def ask(connection: Any, node: BrokerEndpoint, names: list[str]) -> dict[str, Any]:
        if node.broker_id == 1 and "g" in names:
            cluster.places["g"] = 2
            return {name: Failure(ErrorCode.NOT_COORDINATOR) if name == "g" else name for name in names}
        return dict.fromkeys(names, node.broker_id)

    assert call_coordinators(scripted.brokers(), "describes", ["g", "h"], ask) == {"g": 2, "h": "h"}
    assert cluster.lookups == [("g", "h"), ("g",)]
    assert scripted.waits == [0.1]


def test_a_loading_coordinator_is_retried_without_a_lookup(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1})
    answers = iter([Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), "loaded"])
    assert call_coordinators(scripted.brokers(), "describes", ["g"], lambda *_: {"g": next(answers)}) == {"g": "loaded"}
    assert (cluster.lookups, scripted.waits) == ([("g",)], [0.1, 0.2])


def test_no_coordinator_yet(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1})
    cluster.codes["g"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert call_coordinators(scripted.brokers(), "describes", ["g"], lambda *_: {"g": 1}) == {"g": 1}
    assert len(cluster.lookups) == 3


def test_a_coordinator_that_is_gone_is_looked_up_again(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1, "h": 2})

    def ask(connection: Any, node: BrokerEndpoint, names: list[str]) -> dict[str, Any]:
        if node.broker_id == 1:
            cluster.places["g"] = 2
            raise BrokerUnavailableError("gone")
        return dict.fromkeys(names, node.broker_id)

    assert call_coordinators(scripted.brokers(), "describes", ["g", "h"], ask) == {"g": 2, "h": 2}


def test_a_refusal_is_of_one_group_alone(scripted: Any) -> None:
    cluster = Cluster(scripted, {"g": 1, "": 1})
    cluster.codes[""] = [ErrorCode.INVALID_GROUP_ID]
    found = call_coordinators(scripted.brokers(), "describes", ["", "g"], lambda *_: {"g": "there"})
    assert found == {"": Failure(ErrorCode.INVALID_GROUP_ID), "g": "there"}


def test_groups_without_a_response_in_time_fail_and_others_do_not(scripted: Any) -> None:
    Cluster(scripted, {"g": 1, "h": 1})
    brokers = scripted.brokers(timeout_ms=250)
    loading = Failure(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    found = call_coordinators(brokers, "describes", ["g", "h"], lambda *_: {"g": loading, "h": "there"})
    late = "Timed out after 2 attempt(s), the last: COORDINATOR_LOAD_IN_PROGRESS. Call: describes(api=FIND_COORDINATOR)"
    assert found == {"g": Failure(ErrorCode.REQUEST_TIMED_OUT, late), "h": "there"}


def test_no_broker_is_reachable(scripted: Any) -> None:
    found = call_coordinators(scripted.brokers(timeout_ms=150), "describes", ["g"], lambda *_: {"g": 1})
    sentence = "Timed out waiting for a node assignment. Call: describes(api=FIND_COORDINATOR) (no connection to broker a:1)"
    assert found == {"g": Failure(ErrorCode.REQUEST_TIMED_OUT, sentence)}


def test_a_group_that_the_coordinator_leaves_out(scripted: Any) -> None:
    Cluster(scripted, {"g": 1})
    (failure,) = call_coordinators(scripted.brokers(), "describes", ["g"], lambda *_: {}).values()
    assert failure == Failure(ErrorCode.UNKNOWN_SERVER_ERROR, "the coordinator did not answer for g")


def test_many_groups_are_split_into_several_requests(scripted: Any) -> None:
    names = [f"g{number}" for number in range(2 * GROUPS_MAX + 1)]
    cluster = Cluster(scripted, dict.fromkeys(names, 1))
    sizes = []

    def ask(connection: Any, node: BrokerEndpoint, chunk: list[str]) -> dict[str, Any]:
        sizes.append(len(chunk))
        return dict.fromkeys([*chunk, "not requested"], 1)

    assert call_coordinators(scripted.brokers(), "describes", names, ask) == dict.fromkeys(names, 1)
    assert sizes == [len(lookup) for lookup in cluster.lookups] == [GROUPS_MAX, GROUPS_MAX, 1]


def test_a_coordinator_that_is_not_at_its_advertised_address_is_soon_reported(scripted: Any) -> None:
    Cluster(scripted, {"g": 2})
    del scripted.answers["b:2"]
    found = call_coordinators(scripted.brokers(timeout_ms=60_000, bootstrap_timeout_ms=350), "describes", ["g"], lambda *_: {})
    failure = found["g"]
    assert isinstance(failure, Failure)
    assert str(failure.message).startswith("the cluster was reached, but not its broker 2 in 350 ms (no connection to broker b:2)")
    assert sum(scripted.waits) < 0.35
