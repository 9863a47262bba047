"""A small Java program beside a test: compiled once, controlled by lines on its input, reporting JSON objects, one a line, on its output.

The program ends with its input, so it never outlives the test. The test and the program agree on the meaning of the lines.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ottla.testing.processes.java import QUICK_START_OPTIONS, ToolMissing, find_java
from ottla.testing.processes.line_program import LineProgram

COMPILE_SECONDS_MAX = 120
JVM_OPTIONS = ("-Xmx256m", *QUICK_START_OPTIONS)


class CompileFailed(Exception):
    """The Java source is wrong; the text is the compiler's."""


def compile_java(source: Path, class_path: str, directory: Path) -> str:
    """Compile one source file into `directory`; return the class path to run it with.

    Raises ToolMissing where only a runtime is installed, CompileFailed.
    """
    compiler = find_java().resolve().with_name("javac")
    if not compiler.is_file():
        raise ToolMissing(f"needs a Java compiler, found no {compiler}: install a JDK (Debian: default-jdk-headless)")
    options = [f"-J{option}" for option in QUICK_START_OPTIONS]
    command = [str(compiler), *options, "-cp", class_path, "-d", str(directory), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX, check=False)
    if ran.returncode:
        raise CompileFailed(ran.stdout + ran.stderr)
    return f"{directory}:{class_path}"


class JavaProgram(LineProgram):
    """A running class of `class_path`; `options` are for its JVM."""

    def __init__(
        self, main_class: str, class_path: str, *, error_path: Path, arguments: Sequence[str] = (), options: Sequence[str] = ()
    ) -> None:
        command = [str(find_java()), *JVM_OPTIONS, *options, "-cp", class_path, main_class, *arguments]
        super().__init__(command, error_path=error_path)
