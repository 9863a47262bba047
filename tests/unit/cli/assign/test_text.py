from ottla.cli.assign.outcome import outcome
from ottla.cli.assign.state import State
from ottla.cli.assign.text import ranges, text
from ottla.core.assignors import Subscriber, find_assignor


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
