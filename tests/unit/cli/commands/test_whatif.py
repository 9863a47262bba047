import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.diagnose.gathering import Gathered
from ottla.cli.main import main
from ottla.cli.whatif import run as run_module
from ottla.core.diagnosis.evidence.group_events import evidence_of_event
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.replay import replay
from ottla.testing.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
SILENCE = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000)
GROUP = behaviour(process("a", START, SILENCE), process("b", START))
EVIDENCE = [item for event in replay(GROUP).events if (item := evidence_of_event(event, clock="c")) is not None]


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "gather", lambda *_, **__: Gathered(EVIDENCE))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["whatif", *arguments, "--archive", "somewhere"])


def test_what_other_settings_would_have_changed() -> None:
    found = run("g", "--set", "session.timeout.ms=9000", "--assignor", "sticky", "--json")
    assert found.exit_code == 0, found.output
    said = json.loads(found.output)
    assert said["settings"] == {"session.timeout.ms": "9000", "partition.assignment.strategy": "sticky"}
    assert said["after"]["unplanned"] == 0


def test_an_assignor_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assignor_of_a_whatif.py").write_text(
        "from ottla.core.assignors import Assignor\n\n"
        "class Everything(Assignor):\n"
        "    name = 'everything'\n"
        "    def assign(self, members, partitions, racks):\n"
        "        mine = {topic: list(range(count)) for topic, count in partitions.items()}\n"
        "        return {each.member_id: mine if each is members[0] else {} for each in members}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    found = run("g", "--assignor", "assignor_of_a_whatif:Everything", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.output)["settings"] == {"partition.assignment.strategy": "assignor_of_a_whatif:Everything"}


def test_an_assignor_that_there_is_not() -> None:
    found = run("g", "--assignor", "stickey")
    assert (found.exit_code, "did you mean 'sticky'" in found.output) == (2, True)


def test_the_cheapest_settings() -> None:
    found = run("g", "--search", "--at-most", "1")
    assert found.exit_code == 0, found.output
    assert "session.timeout.ms=11000" in found.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["g"], "give settings with --set"),
        (["g", "--search"], "--search and --at-most go together"),
        (["g", "--search", "--at-most", "1", "--set", "session.timeout.ms=9000"], "or else --search"),
        (["g", "--set", "session.timeuot.ms=9000"], "did you mean 'session.timeout.ms'"),
        (["g", "--set", "group.instance.id=on", "--since", "yesterday"], "is no time"),
        (["g", "--set", "group.instance.id=off", "--recorded", "nonsense=1"], "no setting of a what-if"),
    ],
)
def test_usage_errors_say_what_to_write(arguments: list[str], said: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 2
    assert said in found.output


def test_a_group_without_rebalances_ends_with_1() -> None:
    found = run("other", "--set", "session.timeout.ms=9000")
    assert (found.exit_code, "no rebalance of the group" in found.output) == (1, True)
