import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import main

STATE = {"topics": {"t": 3}, "members": [{"member_id": "a", "topics": ["t"]}, {"member_id": "b", "topics": ["t"]}]}


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    return str(tmp_path / "state.json")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["assign", *arguments])


def test_every_assignor_on_a_file(path: str) -> None:
    found = run("--file", path)
    assert found.exit_code == 0, found.output
    assert [line.split(":")[0] for line in found.output.splitlines() if "partitions each" in line] == [
        "cooperative-sticky",
        "range",
        "roundrobin",
        "sticky",
    ]


def test_chosen_assignors_as_json(path: str) -> None:
    found = run("--file", path, "--assignor", "range", "--assignor", "legacy-range", "--json")
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
    found = run(*(path if each == "FILE" else each for each in arguments))
    assert found.exit_code == 2
    assert said in found.output
