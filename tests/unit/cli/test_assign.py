"""`ottla assign`: states that are read, assignments and moves, and how they are printed."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ottla.cli import assign as run_module
from ottla.cli.assign import (
    REBALANCES_MAX,
    AssignOptions,
    Move,
    State,
    complete_assignment,
    outcome,
    parse_state,
    ranges,
    read_group_state,
    run,
    state_document,
    text,
    with_ownership,
)
from ottla.cli.clusters import CommandFailed
from ottla.cli.main import main
from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import DescribedGroup, DescribedMember, DescribedTopic, Failure
from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber, find_assignor
from ottla.protocol.errors import ErrorCode
from tests.support.kit.consumer_protocol import encode_assignment, encode_subscription

STATE = {"topics": {"t": 3}, "members": [{"member_id": "a", "topics": ["t"]}, {"member_id": "b", "topics": ["t"]}]}


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    return str(tmp_path / "state.json")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["assign", *arguments])


def test_every_assignor_on_a_file(path: str) -> None:
    found = invoke("--file", path)
    assert found.exit_code == 0, found.output
    assert [line.split(":")[0] for line in found.output.splitlines() if "partitions each" in line] == [
        "cooperative-sticky",
        "range",
        "roundrobin",
        "sticky",
    ]


def test_chosen_assignors_as_json(path: str) -> None:
    found = invoke("--file", path, "--assignor", "range", "--assignor", "legacy-range", "--json")
    document = json.loads(found.output)
    assert document["state"] == STATE
    assert [each["assignment"] for each in document["assignors"]] == [{"a": {"t": [0, 1]}, "b": {"t": [2]}}] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a group"),
        (["--file", "FILE"] * 3, "give a group"),
        (["--group", "g"], "--group and --bootstrap-server go together"),
        (["--bootstrap-server", "a:1", "--file", "FILE"], "--group and --bootstrap-server go together"),
        (["--file", "FILE", "--from-assignment"], "--from-assignment needs two states"),
        (["--file", "FILE", "--assignor", "stickey"], "did you mean 'sticky'"),
        (["--file", "missing.json"], "does not exist"),
    ],
)
def test_usage_errors_say_what_to_write(path: str, arguments: list[str], said: str) -> None:
    found = invoke(*(path if each == "FILE" else each for each in arguments))
    assert found.exit_code == 2
    assert said in found.output


TEXT = """{
  "topics": {"orders": 6, "payments": {"partitions": 2, "racks": [["a"], ["a", "b"]]}},
  "members": [
    {"member_id": "c1", "topics": ["orders", "payments"], "instance_id": "one", "rack": "a", "owned": {"orders": [1, 0]}, "generation": 3},
    {"member_id": "c2", "topics": ["orders"]}
  ]
}"""
STATE_STATE = State(
    (
        Subscriber(
            member_id="c1", topics=frozenset({"orders", "payments"}), instance_id="one", rack="a", owned={"orders": (0, 1)}, generation=3
        ),
        Subscriber(member_id="c2", topics=frozenset({"orders"})),
    ),
    {"orders": 6, "payments": 2},
    {"payments": (frozenset("a"), frozenset("ab"))},
)


def test_members_and_topics() -> None:
    assert parse_state(TEXT) == STATE_STATE


def test_what_is_printed_is_read() -> None:
    assert parse_state(json.dumps(state_document(STATE_STATE))) == STATE_STATE
    assert parse_state(json.dumps({"state": state_document(STATE_STATE), "assignors": []})) == STATE_STATE


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "the file: write an object"),
        ({"members": []}, "topics: write an object"),
        ({"topics": {}}, "members: write a list"),
        ({"topics": {"t": "6"}, "members": []}, "topics: t: write an object"),
        ({"topics": {"t": -1}, "members": []}, "topics: t: write its number"),
        ({"topics": {"t": True}, "members": []}, "topics: t: write its number"),
        ({"topics": {"t": 900_000, "u": 900_000}, "members": []}, "more than 1000000 partitions"),
        ({"topics": {"t": {"partitions": 2, "racks": [["a"]]}}, "members": []}, "racks of 1 partitions, but it has 2"),
        ({"topics": {"t": {"partitions": 1, "racks": ["a"]}}, "members": []}, "t: racks: write a list"),
        ({"topics": {}, "members": [{"topics": []}]}, r"members\[0\]: has no member_id"),
        ({"topics": {}, "members": [{"member_id": "a"}]}, "member a: topics: write a list"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": [1]}]}, "member a: topics: write a list of texts"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": [], "owns": {}}]}, "member a: unknown: owns"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": [], "owned": {"t": [-1]}}]}, "member a: owned: write lists of partition"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": [], "rack": 1}]}, "member a: generation is a number"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": []}] * 2}, "'a' is there twice"),
    ],
)
def test_what_is_no_state_is_refused(document: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_state(document if isinstance(document, str) else json.dumps(document))


V3 = bytes.fromhex("000300000001000174ffffffff000000010001740000000200000000000000010000000700027231")
CLASSIC = DescribedMember(
    member_id="m1",
    instance_id="one",
    client_id="c",
    host="h",
    subscription_bytes=V3,
    assignment_bytes=encode_assignment({"t": [0, 1]}),
)
OTHER = DescribedMember(member_id="m2", instance_id=None, client_id="c", host="h", subscription_bytes=encode_subscription(["t", "gone"]))
GROUP = DescribedGroup(
    group_id="g",
    kind="classic",
    protocol_type="consumer",
    state="Stable",
    assignor="range",
    coordinator=BrokerEndpoint(1, "a", 1),
    members=(CLASSIC, OTHER),
)


@dataclass
class Admin:
    """Describes one group, and topics of which some have racks."""

    group: DescribedGroup | Failure
    asked: list[list[str]] = field(default_factory=list)

    def describe_groups(self, names: list[str]) -> dict[str, Any]:
        return dict.fromkeys(names, self.group)

    def describe_topics(self, names: list[str]) -> dict[str, Any]:
        self.asked.append(names)
        topics = {"t": DescribedTopic("t", {0: 1, 1: 1, 2: None}, racks={0: frozenset({"r1"})}), "u": DescribedTopic("u", {0: 1})}
        return {name: topics.get(name, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for name in names}


def read(group: DescribedGroup | Failure) -> State:
    return read_group_state(Admin(group), "g")  # type: ignore[arg-type]


def test_a_classic_group() -> None:
    first = Subscriber(member_id="m1", instance_id="one", topics=frozenset({"t"}), owned={"t": (0, 1)}, generation=0, rack="r1")
    second = Subscriber(member_id="m2", topics=frozenset({"t", "gone"}))
    assert read(GROUP) == State((first, second), {"t": 3}, {"t": (frozenset({"r1"}), frozenset(), frozenset())})


def test_a_group_of_kip_848() -> None:
    member = DescribedMember(
        member_id="m1", instance_id=None, client_id="c", host="h", topics=("t",), rack="r2", assigned={"t": (1,), "u": (0,)}, epoch=3
    )
    found = read(replace(GROUP, kind="consumer", members=(member,)))
    assert found.members == (
        Subscriber(member_id="m1", topics=frozenset({"t", "u"}), owned={"t": (1,), "u": (0,)}, generation=0, rack="r2"),
    )
    assert found.partitions == {"t": 3, "u": 1}
    assert hash(found.members[0].topics)


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (Failure(ErrorCode.GROUP_ID_NOT_FOUND), "GroupIdNotFoundException"),
        (replace(GROUP, members=()), "has no members"),
        (replace(GROUP, protocol_type="connect"), "protocol type is 'connect'"),
        (
            replace(GROUP, state="PreparingRebalance", members=(replace(CLASSIC, subscription_bytes=b""),)),
            "in state PreparingRebalance",
        ),
        (replace(GROUP, members=(replace(CLASSIC, subscription_bytes=b"\x00"),)), "not one of Kafka's consumer protocol"),
    ],
)
def test_groups_without_known_members_are_refused(group: DescribedGroup | Failure, said: str) -> None:
    with pytest.raises(CommandFailed, match=said):
        read(group)


def member(name: str, *owned: int) -> Subscriber:
    return Subscriber(member_id=name, topics=frozenset({"t"}), owned={"t": owned} if owned else {}, generation=1 if owned else -1)


STATE_OUTCOME = State((member("a", 0, 1, 2, 3), member("b")), {"t": 4})
BEFORE = {"a": {"t": (0, 1, 2, 3)}}


def test_an_eager_assignor_stops_everything() -> None:
    found = outcome(find_assignor("range"), STATE_OUTCOME, BEFORE)
    assert found.assignment == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    assert found.moves == (Move("t", 2, "a", "b"), Move("t", 3, "a", "b"))
    assert (found.rebalances, found.owned, found.stopped, found.loads) == (1, 4, 4, [2, 2])


def test_a_cooperative_assignor_stops_what_moves_and_needs_another_rebalance() -> None:
    found = outcome(find_assignor("cooperative-sticky"), STATE_OUTCOME, BEFORE)
    assert found.assignment == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
    assert (found.rebalances, found.owned, found.stopped) == (2, 4, 2)


def test_partitions_of_a_member_that_left_move_and_those_that_are_gone_do_not() -> None:
    state = State((member("b", 1),), {"t": 2})
    found = outcome(find_assignor("sticky"), state, {"a": {"t": (0,)}, "b": {"t": (1, 5)}})
    assert found.moves == (Move("t", 0, "a", "b"),)
    assert found.owned == 2


def test_members_own_what_an_assignment_gave_them_in_a_later_generation() -> None:
    found = with_ownership([member("a", 0), member("new")], {"a": {"t": [1]}})
    assert [(each.owned, each.generation) for each in found] == [({"t": [1]}, 2), ({}, 2)]


class Restless(Assignor):
    """Lets each partition be revoked in the rebalance after it was given."""

    name = "restless"
    is_cooperative = True

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        owned = {number for each in members for number in each.owned.get("t", ())}
        return {members[0].member_id: {"t": {0, 1} - owned}}  # type: ignore[dict-item]  # users give sets, too


def test_an_assignor_that_goes_on_moving_partitions_is_stopped() -> None:
    assert complete_assignment(Restless(), State((member("a", 0), member("b")), {"t": 2}))[1] == REBALANCES_MAX


class Shared(Assignor):
    name = "shared"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        return {each.member_id: {"t": [0]} for each in members}


def test_an_assignment_that_is_none_is_refused(path: str) -> None:
    found = invoke("--file", path, "--assignor", f"{__name__}:Shared")
    assert (found.exit_code, found.output) == (1, f"Error: the assignor shared ({__name__}:Shared) gave t-0 to both a and b\n")


def lines(state: State, *names: str) -> list[str]:
    before = {each.member_id: each.owned for each in state.members}
    return list(text(state, [outcome(find_assignor(name), state, before) for name in names]))


def test_what_each_member_gets_and_what_moves() -> None:
    first = Subscriber(member_id="consumer-1", topics=frozenset({"t", "u"}), owned={"t": (0, 1, 2), "u": (0, 1, 2)}, generation=1)
    second = Subscriber(member_id="consumer-2", instance_id="two", topics=frozenset({"t", "u"}))
    assert lines(State((first, second), {"t": 3, "u": 3}), "range", "cooperative-sticky") == [
        "2 members, 2 topics, 6 partitions.",
        "",
        "range: 2 to 4 partitions each, 4 of 6 move, 6 stop meanwhile",
        "  MEMBER      PARTITIONS  ASSIGNED",
        "  consumer-1           2  t 2, u 2",
        "  two                  4  t 0-1, u 0-1",
        "  t-0: consumer-1 -> two",
        "  t-1: consumer-1 -> two",
        "  u-0: consumer-1 -> two",
        "  u-1: consumer-1 -> two",
        "",
        "cooperative-sticky: 3 partitions each, 3 of 6 move, 3 stop meanwhile, 2",
        "rebalances",
        "  MEMBER      PARTITIONS  ASSIGNED",
        "  two                  3  t 2, u 1-2",
        "  consumer-1           3  t 0-1, u 0",
        "  t-2: consumer-1 -> two",
        "  u-1: consumer-1 -> two",
        "  u-2: consumer-1 -> two",
    ]


def test_long_names_and_lists_keep_to_80_columns() -> None:
    topics = frozenset(f"topic.{'x' * 60}.{number}" for number in range(9)) | {"every-other"}
    members = [Subscriber(member_id=f"client-{'y' * 50}-{number}", topics=topics) for number in range(2)]
    found = lines(State(tuple(members), dict.fromkeys(topics, 50)), "roundrobin")
    assert max(map(len, found)) <= 80
    assert any(line.startswith("  client-yyyyyyyy..yyyyyyyyyyyyy-1") for line in found)


def test_many_moves_are_counted() -> None:
    state = State(
        (
            Subscriber(member_id="a", topics=frozenset({"t"}), owned={"t": tuple(range(60))}, generation=1),
            Subscriber(member_id="b", topics=frozenset({"t"})),
        ),
        {"t": 60},
    )
    assert lines(state, "sticky")[-1] == "  and 10 more moves"


def test_nothing_to_assign() -> None:
    assert lines(State((Subscriber(member_id="a", topics=frozenset()),), {}), "range")[2:] == [
        "range: 0 partitions each",
        "  MEMBER  PARTITIONS  ASSIGNED",
        "  a                0  -",
    ]


def test_control_characters_are_escaped() -> None:
    state = State((Subscriber(member_id="a\x1b[2J", topics=frozenset({"t\n"})),), {"t\n": 1})
    assert lines(state, "range")[-1] == r"  a\x1b[2J           1  t\n 0"


def test_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([0, 1, 2, 4, 6, 7]) == "0-2,4,6-7"


STATE_RUN = {
    "topics": {"t": 4},
    "members": [
        {"member_id": "a", "topics": ["t"], "owned": {"t": [0, 3]}},
        {"member_id": "b", "topics": ["t"], "owned": {"t": [1, 2]}},
    ],
}
LATER = {"topics": {"t": 4}, "members": [{"member_id": each, "topics": ["t"]} for each in ("b", "c")]}


def files(directory: Path, *states: Any) -> tuple[Path, ...]:
    paths = tuple(directory / f"state-{number}.json" for number in range(len(states)))
    for path, state in zip(paths, states, strict=True):
        path.write_text(state if isinstance(state, str) else json.dumps(state))
    return paths


def moves(options: AssignOptions) -> dict[str, list[str]]:
    out = io.StringIO()
    assert run(options, out=out, err=io.StringIO()) == 0
    return {
        each["name"]: [f"{move['topic']}-{move['partition']} {move['from']}{move['to']}" for move in each["moves"]]
        for each in json.loads(out.getvalue())["assignors"]
    }


def test_moves_from_the_present_assignment_of_one_state(tmp_path: Path) -> None:
    found = moves(AssignOptions(files=files(tmp_path, STATE_RUN), assignors=["range", "sticky"], as_json=True))
    assert found == {"range": ["t-1 ba", "t-3 ab"], "sticky": []}


def test_moves_between_what_an_assignor_gives_in_two_states(tmp_path: Path) -> None:
    both = files(tmp_path, STATE_RUN, LATER)
    assert moves(AssignOptions(files=both, assignors=["range"], as_json=True)) == {"range": ["t-0 ab", "t-1 ab", "t-2 bc", "t-3 bc"]}
    present = moves(AssignOptions(files=both, assignors=["range", "sticky"], as_json=True, from_assignment=True))
    assert present == {"range": ["t-0 ab", "t-2 bc", "t-3 ac"], "sticky": ["t-0 ac", "t-3 ac"]}


def test_the_state_of_a_group_and_then_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = State((Subscriber(member_id="b", topics=frozenset({"t"}), owned={"t": (0, 1, 2, 3)}, generation=0),), {"t": 4})
    monkeypatch.setattr(run_module, "read_group_state", lambda admin, name: group)
    options = AssignOptions(group="g", bootstrap_server="127.0.0.1:1", files=files(tmp_path, LATER), assignors=["sticky"], as_json=True)
    assert moves(options) == {"sticky": ["t-2 bc", "t-3 bc"]}


def test_an_assignor_of_old_consumers_and_a_text(tmp_path: Path) -> None:
    out = io.StringIO()
    assert run(AssignOptions(files=files(tmp_path, LATER), assignors=["legacy-roundrobin"]), out=out, err=io.StringIO()) == 0
    assert "legacy-roundrobin: 2 partitions each" in out.getvalue()


@pytest.mark.parametrize(
    ("state", "assignor", "said"),
    [
        ("[]", "range", "state-0.json: the file: write an object"),
        (
            {"topics": {"t": 1, "u": 1}, "members": [{"member_id": "a", "topics": ["t"]}, {"member_id": "b", "topics": ["u"]}]},
            "legacy-roundrobin",
            "the same topics",
        ),
    ],
)
def test_what_cannot_be_assigned_ends_with_1(tmp_path: Path, state: Any, assignor: str, said: str) -> None:
    err = io.StringIO()
    assert run(AssignOptions(files=files(tmp_path, state), assignors=[assignor]), out=io.StringIO(), err=err) == 1
    assert said in err.getvalue()


def test_a_cluster_that_cannot_be_reached_or_named(tmp_path: Path) -> None:
    err = io.StringIO()
    assert run(AssignOptions(group="g", bootstrap_server="nonsense", assignors=["range"]), out=io.StringIO(), err=err) == 1
    assert "'nonsense' is no host:port" in err.getvalue()
