"""Java artifacts with their dependencies, fetched once by Maven into a folder that outlives the run.

A folder is complete or missing: Maven fills another one that is renamed at the end, and a file lock lets several processes (the
workers of one test run) ask at the same time. The user's own Maven configuration decides which repository Maven uses.
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

from ottla.cli.processes import ToolMissing, find_java_home

CONTENTS_FILE = "artifacts.txt"
FETCH_SECONDS_MAX = 1800


class FetchFailed(ToolMissing):
    """Maven ran and did not fetch the artifacts; the text ends with Maven's last lines."""


def report_progress(message: str) -> None:
    """Print a line on stderr: the default for progress messages."""
    print(message, file=sys.stderr, flush=True)


def fetch_jars(
    artifacts: Sequence[str], directory: Path, *, what: str, are_alone: bool = False, report: Callable[[str], None] = report_progress
) -> list[Path]:
    """The jars of `artifacts` ("group:name:version") and, unless `are_alone`, of all they depend on, in `directory`, sorted by name.

    The first call runs Maven (minutes on a slow line) and reports it; later calls list the files. `what` is for messages. `are_alone` is
    for jars whose host has the rest already, such as a plug-in's. Raises ToolMissing (no Maven, no Java) and FetchFailed.
    """
    contents = "".join(f"{artifact}\n" for artifact in artifacts)
    if not _is_whole(directory, contents):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with open(directory.parent / f".{directory.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_whole(directory, contents):
                _fetch(contents, directory, what, are_alone, report)
    return sorted(directory.glob("*.jar"))


def _is_whole(directory: Path, contents: str) -> bool:
    try:
        return (directory / CONTENTS_FILE).read_text() == contents
    except FileNotFoundError:
        return False


def _fetch(contents: str, directory: Path, what: str, are_alone: bool, report: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ToolMissing("needs Maven to fetch its jars once, found no mvn in PATH: install it (Debian: maven)")
    java_home = find_java_home()
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as scratch:
        jars = Path(scratch) / "jars"
        jars.mkdir()
        (Path(scratch) / "pom.xml").write_text(_pom(contents.split(), are_alone))
        report(f"Fetching {what} with Maven into {directory} (once) ...")
        _run_maven(maven, Path(scratch), jars, java_home, what, report)
        count = sum(1 for _ in jars.glob("*.jar"))
        if not count:
            raise FetchFailed(f"could not fetch {what}: Maven ended well but brought no jar")
        (jars / CONTENTS_FILE).write_text(contents)
        if directory.exists():
            shutil.rmtree(directory)
        jars.rename(directory)
        report(f"Fetched {what}: {count} jars.")


def _run_maven(maven: str, scratch: Path, jars: Path, java_home: Path, what: str, report: Callable[[str], None]) -> None:
    """Run Maven in `scratch`, and report the number of files every 50 files; Maven's output is kept for the error only."""
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
                    report(f"... {what}: {files} files")
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


CONNECTOR_VERSION = "4.2.0"
CONNECTOR_ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # fits 4.2.0 as it is
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
    f"org.apache.spark:spark-avro_2.13:{CONNECTOR_VERSION}",  # the connector does not need it; a recipe does
)
"""What Spark does not bring itself; everything else that these depend on is in PySpark already, in versions of its own."""


def fetch_connector(cache_dir: Path, *, report: Callable[[str], None] = report_progress) -> list[Path]:
    """The connector's jars in a folder of `cache_dir`, fetched once. Raises ToolMissing, whose text is a reason to skip."""
    directory = cache_dir / f"spark-kafka-connector-{CONNECTOR_VERSION}"
    return fetch_jars(CONNECTOR_ARTIFACTS, directory, what=f"Spark's Kafka connector {CONNECTOR_VERSION}", are_alone=True, report=report)
