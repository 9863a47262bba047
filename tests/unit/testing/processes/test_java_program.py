"""A Java program beside a test: its input and output, its end, and the error without a compiler."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing.processes import java_program
from ottla.testing.processes.java import ToolMissing
from ottla.testing.processes.java_program import CompileFailed, JavaProgram, compile_java
from ottla.testing.processes.line_program import ProgramEnded

ECHO = """
import java.util.Scanner;
public class Echo {
    public static void main(String[] arguments) {
        System.out.println("starting " + arguments[0]);
        Scanner input = new Scanner(System.in);
        while (input.hasNextLine()) {
            String line = input.nextLine();
            if (line.equals("end")) { System.err.println("asked to end"); return; }
            System.out.println("{\\"event\\":\\"" + line + "\\"}");
        }
    }
}
"""


@pytest.fixture(scope="module")
def echo_class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("echo")
    (directory / "Echo.java").write_text(ECHO)
    try:
        return compile_java(directory / "Echo.java", str(directory), directory)
    except ToolMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def echo(echo_class_path: str, tmp_path: Path) -> Iterator[JavaProgram]:
    with JavaProgram("Echo", echo_class_path, error_path=tmp_path / "errors", arguments=["now"]) as program:
        yield program


def test_it_takes_lines_and_reports_events(echo: JavaProgram) -> None:
    echo.send("first")
    echo.send("second")
    found = echo.wait_for(lambda events: [each for each in events if each["event"] == "second"], "the second")
    assert found == [{"event": "second"}]
    assert echo.events == [{"event": "said", "line": "starting now"}, {"event": "first"}, {"event": "second"}]
    with pytest.raises(TimeoutError, match="a third"):
        echo.wait_for(lambda events: events, "a third", since=3, seconds=0.05)


def test_one_that_ends_is_not_waited_for(echo: JavaProgram) -> None:
    echo.send("end")
    with pytest.raises(ProgramEnded, match="asked to end"):
        echo.wait_for(lambda events: len(events) > 1, "more")


def test_a_source_that_is_wrong_says_where(echo_class_path: str, tmp_path: Path) -> None:
    (tmp_path / "Wrong.java").write_text("public class Wrong { int x = nothing; }")
    with pytest.raises(CompileFailed, match=r"Wrong\.java:1: error"):
        compile_java(tmp_path / "Wrong.java", "", tmp_path)


def test_without_a_compiler_people_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_program, "find_java", lambda: tmp_path / "bin" / "java")
    with pytest.raises(ToolMissing, match="install a JDK"):
        compile_java(tmp_path / "X.java", "", tmp_path)
