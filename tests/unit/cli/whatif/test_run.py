import io
import json
from datetime import UTC
from pathlib import Path

import pytest

from ottla.cli.diagnose.gathering import Gathered, SourceOptions
from ottla.cli.whatif import run as module
from ottla.cli.whatif.run import WhatifOptions, answer, run
from ottla.core.diagnosis.evidence.group_events import evidence_of_event
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.replay import replay
from ottla.core.whatif.settings import Settings
from ottla.testing.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
SILENCE = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000)
GROUP = behaviour(process("a", START, SILENCE), process("b", START))
EVIDENCE = [item for event in replay(GROUP).events if (item := evidence_of_event(event, clock="c")) is not None]
SET, NOTHING = Settings(session_timeout_ms=9_000), Settings()


def options(group: str = "g", *, settings: Settings = SET, at_most: float | None = None, as_json: bool = True) -> WhatifOptions:
    sources = SourceOptions(archives=("somewhere",), groups=(group,))
    return WhatifOptions(sources=sources, group=group, settings=settings, recorded=NOTHING, at_most=at_most, as_json=as_json)


def test_json_is_one_line_and_text_is_several() -> None:
    (line,) = answer(options(), EVIDENCE)
    assert json.loads(line)["after"]["unplanned"] == 0
    (line,) = answer(options(settings=NOTHING, at_most=0), EVIDENCE)
    assert json.loads(line)["best"]
    assert len(answer(options(as_json=False), EVIDENCE)) > 10


def test_only_what_happened_between_the_times_counts() -> None:
    early = WhatifOptions(sources=SourceOptions(), group="g", settings=SET, recorded=NOTHING, since_ms=0, until_ms=20_000)
    assert any("1 of 1 recorded rebalances" in line for line in answer(early, EVIDENCE))


def test_the_report_goes_to_stdout_and_notes_on_sources_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gather", lambda *_, **__: Gathered(EVIDENCE, ["a note"]))
    out, err = io.StringIO(), io.StringIO()
    assert run(options(), zone=UTC, out=out, err=err) == 0
    assert (out.getvalue().count("\n"), err.getvalue()) == (1, "a note\n")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (WhatifOptions(sources=SourceOptions(), group="g", settings=SET, recorded=NOTHING), "nothing to read"),
        (options(), "not there"),
    ],
)
def test_sources_that_cannot_be_used_are_said(wanted: WhatifOptions, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    out, err = io.StringIO(), io.StringIO()
    assert run(wanted, zone=UTC, out=out, err=err) == 1
    assert out.getvalue() == ""
    assert err.getvalue().startswith("Error: ")
    assert said in err.getvalue() or "no such directory" in err.getvalue()


def test_a_group_without_rebalances_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gather", lambda *_, **__: Gathered(EVIDENCE))
    err = io.StringIO()
    assert run(options("other"), zone=UTC, out=io.StringIO(), err=err) == 1
    assert err.getvalue() == "Error: the evidence shows no rebalance of the group 'other'\n"
