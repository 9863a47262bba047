import io
import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.assign import run as run_module
from ottla.cli.assign.run import AssignOptions, run
from ottla.cli.assign.state import State
from ottla.core.assignors import Subscriber

STATE = {
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
    found = moves(AssignOptions(files=files(tmp_path, STATE), assignors=["range", "sticky"], as_json=True))
    assert found == {"range": ["t-1 ba", "t-3 ab"], "sticky": []}


def test_moves_between_what_an_assignor_gives_in_two_states(tmp_path: Path) -> None:
    both = files(tmp_path, STATE, LATER)
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
