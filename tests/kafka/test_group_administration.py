"""Administration of groups of both types, beside Apache Kafka: settings of groups, the feature group.version, requests by group type.

Here the sentences beside an error code are compared too.
"""

import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until

BROKER, GROUP = 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SESSION, HEARTBEAT, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms"
UPGRADE, SAFE_DOWNGRADE = 1, 2
EVER = 45_000

pytestmark = pytest.mark.kafka


class Member:
    """A member of a consumer group, by plain requests."""

    def __init__(self, talk: Any, group: str, member_id: str) -> None:
        self.talk, self.group, self.member_id = talk, group, member_id
        self.epoch = 0

    def heartbeat(self, **values: Any) -> Any:
        """Send one heartbeat, whose answer is compared."""
        asked = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch, **values}
        asked = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None, **asked}
        answer = self.talk.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **asked)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return answer

    def join(self, *topics: str, **values: Any) -> Any:
        return self.heartbeat(subscribed_topic_names=topics, topic_partitions=[], rebalance_timeout=EVER, **values)

    def leave(self) -> None:
        self.epoch = -1
        self.heartbeat()


def told(value: Any, topic_names: Mapping[uuid.UUID, str], field: str = "") -> Any:
    """An answer with every field, errors' sentences included. The order of topics and members is that of a hash map of their ids."""
    if dataclasses.is_dataclass(value):
        return {each.name: told(getattr(value, each.name), topic_names, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, tuple):
        parts = [told(each, topic_names) for each in value]
        return sorted(parts, key=repr) if field in {"members", "topic_partitions", "subscribed_topic_names"} else parts
    if isinstance(value, uuid.UUID):
        return topic_names[value]
    return int(value) if isinstance(value, int) else value


def altered(servers: str, changes: Sequence[tuple[str, int, str | None]], group: str, kind: int = GROUP, **values: Any) -> tuple[int, Any]:
    with RawClient(servers) as client:
        configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in changes]
        asked = [{"resource_type": kind, "resource_name": group, "configs": configs}]
        (result,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=asked, **{"validate_only": False, **values}).responses
    return int(result.error_code), result.error_message


def described(servers: str, group: str, *names: str) -> tuple[int, Any, Mapping[str, Any]]:
    with RawClient(servers) as client:
        asked = [{"resource_type": GROUP, "resource_name": group, "configuration_keys": names or None}]
        (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True, include_documentation=False).results
    settings = {
        each.name: (
            *(each.value, each.read_only, each.config_source, each.is_sensitive, each.config_type),
            [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
        )
        for each in result.configs
    }
    return int(result.error_code), result.error_message, settings


def listed(servers: str, prefix: str) -> list[str]:
    with RawClient(servers) as client:
        resources = client.call(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[GROUP]).config_resources
    return sorted(each.resource_name for each in resources if each.resource_name.startswith(prefix))


CHANGES = [
    *([(SESSION, SET, value)] for value in ("1000", "70000", "abc", "", "0", " 50000 ", "45001")),
    *([(HEARTBEAT, SET, value)] for value in ("1", "20000", "15000", "-5")),
    *([(INTERVAL, SET, value)] for value in ("-1", "20000", "0", "500", "9999999999")),
    [("nope", SET, "1")],
    [("nope", DELETE, None)],
    [("nope", APPEND, "1")],
    [(SESSION, APPEND, "1")],
    [(SESSION, SUBTRACT, "1")],
    [(SESSION, SET, "45000"), (HEARTBEAT, SET, "5000")],
    [(SESSION, SET, "1"), (HEARTBEAT, SET, "1")],
    [(SESSION, SET, "50000"), (INTERVAL, SET, "99999")],
    [(SESSION, SET, "50000"), (SESSION, SET, "51000")],
    [],
    [(SESSION, DELETE, None)],
]


def test_settings_of_groups(both: Mapping[str, str], unique_name: Callable[[str], str]) -> None:
    group = unique_name("group")
    seen: dict[str, list[Any]] = {}
    for kind, servers in both.items():
        # The settings of a group that does not exist; of no group; and those that the broker's settings give.
        said = seen[kind] = [described(servers, group), described(servers, ""), described(servers, group, SESSION, "nope")]
        for changes in CHANGES:
            said.append((changes, altered(servers, changes, group)))
        for changes in ([(SESSION, SET, "50000")], [(SESSION, DELETE, None)], [("nope", SET, "1")]):
            said.append((changes, altered(servers, changes, "")))
        said.append(altered(servers, [(SESSION, SET, "47000")], f"{group}-other", validate_only=True))
        wait_until(lambda servers=servers: described(servers, group)[2][SESSION][2] == 5, "the broker has taken it up")
        said += [described(servers, group), listed(servers, group)]
        altered(servers, [(HEARTBEAT, DELETE, None), (INTERVAL, DELETE, None)], group)
        wait_until(lambda servers=servers: not listed(servers, group), "nothing is set")
        said.append(described(servers, group))
    assert len(seen["ottla"][0][2]) == 17
    assert seen["ottla"] == seen["apache-kafka"]


def test_settings_are_replaced(both: Mapping[str, str], unique_name: Callable[[str], str]) -> None:
    group = unique_name("group")
    seen: dict[str, list[Any]] = {}
    for kind, servers in both.items():
        said = seen[kind] = []
        for wanted in ({SESSION: "50000", INTERVAL: "7"}, {SESSION: "1"}, {"nope": "1"}, {SESSION: None}, {INTERVAL: "8"}, {}):
            with RawClient(servers) as client:
                configs = [{"name": name, "value": value} for name, value in wanted.items()]
                asked = [{"resource_type": GROUP, "resource_name": group, "configs": configs}]
                (result,) = client.call(ApiKey.ALTER_CONFIGS, 2, resources=asked, validate_only=False).responses
            said.append((wanted, int(result.error_code), result.error_message))
        wait_until(lambda servers=servers: not listed(servers, group), "nothing is set")
    assert seen["ottla"] == seen["apache-kafka"]


def test_a_setting_takes_effect_at_the_next_heartbeat(same_answers: Any) -> None:
    def conversation(talk: Any) -> None:
        group = talk.name("group")
        talk.make_topic(talk.name("topic"))
        talk.wait_for_coordinator(group)
        member = Member(talk, group, "m")
        member.join(talk.name("topic"))

        def changed(value: str | None, interval: str) -> None:
            operation = DELETE if value is None else SET
            assert altered(talk.bootstrap_servers, [(HEARTBEAT, operation, value)], group) == (0, None)
            talk.until(lambda: described(talk.bootstrap_servers, group)[2][HEARTBEAT][0] == interval, "the broker has taken it up")
            member.heartbeat()

        changed("7000", "7000")
        changed(None, "5000")
        member.leave()

    same_answers(conversation, 0)


def update(talk: Any, updates: Sequence[tuple[str, int, int]], *, validate_only: bool = True) -> Any:
    version = talk.version if validate_only else max(talk.version, 1)
    kinds = [{"allow_downgrade": kind != UPGRADE} if version == 0 else {"upgrade_type": kind} for _, _, kind in updates]
    asked = [{"feature": name, "max_version_level": level, **kind} for (name, level, _), kind in zip(updates, kinds, strict=True)]
    values = {} if version == 0 else {"validate_only": validate_only}
    answer = talk.ask(ApiKey.UPDATE_FEATURES, version, feature_updates=asked, timeout=10_000, **values)
    talk.answers.append(answer.error_message)


def level(talk: Any) -> int | None:
    answer = talk.quietly(ApiKey.API_VERSIONS, 3, client_software_name="a", client_software_version="1")
    return next((int(each.max_version_level) for each in answer.finalized_features if each.name == "group.version"), None)


@pytest.mark.parametrize("version", range(3))
def test_the_level_of_group_version(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        group = talk.name("group")
        talk.wait_for_coordinator(group)
        member = Member(talk, group, "m")

        def describe() -> None:
            talk.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group, ""])

        talk.answers.append(level(talk))
        kinds = (UPGRADE, SAFE_DOWNGRADE) if version == 0 else range(5)
        for kind in kinds:
            for wanted in (-1, 0, 1, 2):
                update(talk, [("group.version", wanted, kind)])
        for updates in (
            [("nope", 1, UPGRADE)],
            [("nope", 0, SAFE_DOWNGRADE)],
            [("", 1, UPGRADE)],
            [],
            [("group.version", 1, UPGRADE), ("nope", 1, UPGRADE)],
            [("group.version", 7, UPGRADE), ("group.version", 1, UPGRADE)],
            [("group.version", 1, UPGRADE), ("group.version", 7, UPGRADE)],
        ):
            update(talk, updates)
        member.join(talk.name("topic"))
        try:
            update(talk, [("group.version", 0, SAFE_DOWNGRADE)], validate_only=False)
            talk.until(lambda: level(talk) is None, "the broker has taken it up")
            member.heartbeat()
            Member(talk, talk.name("another"), "n").join("x")
            describe()
            update(talk, [("group.version", 0, UPGRADE)])
            update(talk, [("group.version", 1, SAFE_DOWNGRADE)])
        finally:
            update(talk, [("group.version", 1, UPGRADE)], validate_only=False)
            talk.until(lambda: level(talk) == 1, "the broker has taken it up")
        member.heartbeat()
        describe()
        member.leave()

    same_answers(conversation, version)


def test_requests_by_type_of_group(same_answers: Any) -> None:
    """A consumer group with a member (names and a pattern), one that was left, one of offsets alone, and one that is not there."""

    def conversation(talk: Any) -> None:
        topic, matched, other = (talk.name(name) for name in ("topic", "matched", "other"))
        topic_names = {talk.make_topic(name, 2): name for name in (topic, matched, other)}
        alive, left, simple, nowhere = groups = [talk.name(name) for name in ("alive", "left", "simple", "nowhere")]
        for group in groups:
            talk.wait_for_coordinator(group)

        def commit(group: str, *topics: str, member: str = "", epoch: int = -1, version: int = 9) -> None:
            partitions = [{"partition_index": number, "committed_offset": 7, "committed_metadata": ""} for number in (0, 1)]
            asked = [{"name": name, "partitions": partitions} for name in topics]
            generation = {"generation_id_or_member_epoch": epoch}
            talk.ask(ApiKey.OFFSET_COMMIT, version, group_id=group, member_id=member, topics=asked, **generation)

        def delete_offsets(group: str, *topics: str) -> None:
            asked = [{"name": name, "partitions": [{"partition_index": number} for number in (0, 5)]} for name in topics]
            talk.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=asked)

        def list_groups(version: int, **filters: Any) -> None:
            answer = talk.quietly(ApiKey.LIST_GROUPS, version, **filters)
            found = [each for each in answer.groups if each.group_id in groups]
            talk.answers.append([answer.error_code, sorted(repr(talk._comparable(each)) for each in found)])

        def fetch(group: str) -> None:
            talk.ask(ApiKey.OFFSET_FETCH, 9, groups=[{"group_id": group, "topics": None}], require_stable=False)

        def describe(*versions: int) -> None:
            for version in versions:
                talk.ask(ApiKey.DESCRIBE_GROUPS, version, groups=groups, include_authorized_operations=version == 5)
            for version in (0, 1):
                asked = {"group_ids": [*groups, ""], "include_authorized_operations": version == 1}
                found = talk.quietly(ApiKey.CONSUMER_GROUP_DESCRIBE, version, **asked).groups
                talk.answers += [told(group, topic_names) for group in sorted(found, key=lambda each: str(each.group_id))]

        member, gone = Member(talk, alive, "m"), Member(talk, left, "n")
        member.join(topic)
        member.heartbeat(subscribed_topic_regex=f"{matched}.*")

        def assigned() -> int:
            answer = talk.quietly(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **again(member, topic))
            return len(answer.assignment.topic_partitions)

        talk.until(lambda: assigned() == 2, "the pattern's topic is assigned")
        gone.join(topic)
        commit(left, topic, member="n", epoch=gone.epoch)
        gone.leave()
        commit(simple, topic, other)
        describe(0, 4, 5, 6)
        for version in range(6):
            list_groups(version)
        for states in (["stable"], ["Empty", "STABLE "], ["nope"], ["Assigning", "Reconciling"], [""]):
            list_groups(4, states_filter=states)
            list_groups(5, states_filter=states, types_filter=["consumer"])
        for types in (["Consumer"], ["classic", " CONSUMER"], ["nope"], ["share"], [""]):
            list_groups(5, types_filter=types)
        # Offsets, by an administrator and by members.
        for group in groups[:3]:
            commit(group, topic)
        for version, epoch in ((9, 99), (9, 1), (8, 2), (9, -1)):
            commit(alive, topic, other, member="m", epoch=epoch, version=version)
        commit(alive, topic, member="nobody", epoch=2)
        commit(left, topic, member="n", epoch=2)
        commit(alive, topic, matched, other, member="m", epoch=latest(talk, member))
        for group in groups:
            delete_offsets(group, topic, matched, other, talk.name("unknown"))
            fetch(group)
        for version in range(3):
            talk.ask(ApiKey.DELETE_GROUPS, version, groups_names=[alive, nowhere])
        # An administrator removes a member; then the group is empty, and can be deleted.
        talk.ask(ApiKey.LEAVE_GROUP, 5, group_id=alive, members=[{"member_id": "nobody"}, {"member_id": "m", "reason": "by hand"}])
        describe(6)
        talk.ask(ApiKey.DELETE_GROUPS, 2, groups_names=groups)
        describe(6)
        list_groups(5)

    same_answers(conversation, 0)


def again(member: Member, topic: str) -> Mapping[str, Any]:
    """A full heartbeat, which is answered with the whole assignment and changes nothing."""
    names = {"subscribed_topic_names": [topic], "topic_partitions": [], "rebalance_timeout": EVER}
    return {"group_id": member.group, "member_id": member.member_id, "member_epoch": 0, **names}


def latest(talk: Any, member: Member) -> int:
    """The member's epoch now."""
    (group,) = talk.quietly(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[member.group]).groups
    return int(group.members[0].member_epoch)
