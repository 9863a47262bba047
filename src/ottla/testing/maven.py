"""Java artifacts with their dependencies, fetched once by Maven into a folder that outlives the run.

A folder is there whole or not at all: Maven fills a neighbour that is renamed at the end, and a file lock lets several processes (the
workers of one test run) ask at the same time. Which repository Maven asks is the user's own Maven configuration, never decided here.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Timer
from xml.sax.saxutils import escape

from ottla.testing.java import ToolMissing, find_java

CONTENTS_FILE = "artifacts.txt"
FETCH_SECONDS_MAX = 1800


class FetchFailed(ToolMissing):
    """Maven ran and did not bring the artifacts; the text ends with Maven's own last lines."""


def say(message: str) -> None:
    """Where progress goes unless the caller wants it elsewhere: stderr."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201


def fetch_jars(
    artifacts: Sequence[str], directory: Path, *, what: str, are_alone: bool = False, tell: Callable[[str], None] = say
) -> list[Path]:
    """The jars of `artifacts` ("group:name:version") and, unless `are_alone`, of all they depend on, in `directory`, sorted by name.

    The first call runs Maven (minutes on a slow line) and tells so; later calls only look. `what` names it for people. Alone is for jars
    that join others, such as a plug-in's: its host has the rest already. Raises ToolMissing (no Maven, no Java) and FetchFailed.
    """
    contents = "".join(f"{artifact}\n" for artifact in artifacts)
    if not _is_whole(directory, contents):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with open(directory.parent / f".{directory.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_whole(directory, contents):
                _fetch(contents, directory, what, are_alone, tell)
    return sorted(directory.glob("*.jar"))


def _is_whole(directory: Path, contents: str) -> bool:
    try:
        return (directory / CONTENTS_FILE).read_text() == contents
    except FileNotFoundError:
        return False


def _fetch(contents: str, directory: Path, what: str, are_alone: bool, tell: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ToolMissing("needs Maven to fetch its jars once, found no mvn in PATH: install it (Debian: maven)")
    java_home = find_java().resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as scratch:
        jars = Path(scratch) / "jars"
        jars.mkdir()
        (Path(scratch) / "pom.xml").write_text(_pom(contents.split(), are_alone))
        tell(f"Fetching {what} with Maven into {directory} (once) ...")
        _run_maven(maven, Path(scratch), jars, java_home, what, tell)
        count = sum(1 for _ in jars.glob("*.jar"))
        if not count:
            raise FetchFailed(f"could not fetch {what}: Maven ended well but brought no jar")
        (jars / CONTENTS_FILE).write_text(contents)
        if directory.exists():
            shutil.rmtree(directory)
        jars.rename(directory)
        tell(f"Fetched {what}: {count} jars.")


def _run_maven(maven: str, scratch: Path, jars: Path, java_home: Path, what: str, tell: Callable[[str], None]) -> None:
    """Run Maven in `scratch`, telling every 50 files how far it is; its repository lines are kept for the error only."""
    command = [maven, "-B", "-f", str(scratch / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={jars.absolute()}"]
    last_lines: deque[str] = deque(maxlen=15)
    environment = os.environ | {"JAVA_HOME": str(java_home)}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    ) as process:
        assert process.stdout is not None
        watchdog = Timer(FETCH_SECONDS_MAX, process.kill)
        watchdog.start()
        files = 0
        for line in process.stdout:
            last_lines.append(line)
            if "Downloaded from" in line:
                files += 1
                if files % 100 == 0:
                    tell(f"... {what}: {files} files")
        watchdog.cancel()
    if process.returncode:
        raise FetchFailed(f"could not fetch {what} (Maven ended with {process.returncode}):\n{''.join(last_lines)}")


def _pom(artifacts: Sequence[str], are_alone: bool) -> str:
    # Excluded in the project, not when copying: so Maven does not even ask for what would be left out.
    others = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>" if are_alone else ""
    dependencies = []
    for artifact in artifacts:
        group, name, version = (escape(part) for part in artifact.split(":"))
        coordinates = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        dependencies.append(f"<dependency>{coordinates}{others}</dependency>")
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ottla</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>\n"
    )
