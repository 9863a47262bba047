"""Handles of members: commands, assignments, the end of a process, and members that share one."""

import sys
from pathlib import Path

import pytest

from ottla.testing.incidents.handles import ProgramMember, java_log_options
from ottla.testing.processes.line_program import LineProgram, ProgramEnded

MEMBERS = """
import json, sys
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "own":
        print(json.dumps({"member": command["member"], "event": "assignment", "partitions": command["partitions"]}), flush=True)
    print(json.dumps({"member": command["member"], "event": "done", "do": command["do"]}), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> LineProgram:
    return LineProgram([sys.executable, "-c", MEMBERS], error_path=tmp_path / "errors")


def test_each_member_of_a_program_has_its_own_assignment(program: LineProgram) -> None:
    one, two = (ProgramMember(name, program, is_alone=False) for name in ("one", "two"))
    one.do("own", partitions=["t-0"])
    two.do("own", partitions=["t-1"])
    one.do("own", partitions=["t-2"])
    program.wait_for(lambda events: len(events) == 6, "all events")
    assert (one.assignment(), two.assignment()) == ({"t-2"}, {"t-1"})
    again = ProgramMember("one", program, is_alone=False)
    assert again.assignment() == set(), "what the one before reported is not its own"
    one.close()
    two.kill()
    two.do("own", partitions=[])
    program.wait_for(lambda events: len(events) == 10, "the program lives on")
    program.close()


def test_one_that_lives_alone_ends_with_its_process(program: LineProgram) -> None:
    member = ProgramMember("one", program, is_alone=True)
    member.freeze()
    member.thaw()
    member.kill()
    member.kill()
    with pytest.raises(ProgramEnded):
        program.wait_for(lambda events: events, "an event", seconds=1)


def test_one_of_many_cannot_be_frozen(program: LineProgram) -> None:
    member = ProgramMember("one", program, is_alone=False)
    with pytest.raises(AssertionError, match="others"):
        member.freeze()
    program.close()


def test_a_java_program_logs_into_a_file(tmp_path: Path) -> None:
    (option,) = java_log_options(tmp_path, tmp_path / "a.java.log", "%m%n")
    assert option == f"-Dlog4j2.configurationFile={tmp_path}/a.java.log4j2.yaml"
    assert f'fileName: "{tmp_path}/a.java.log"' in (tmp_path / "a.java.log4j2.yaml").read_text()
