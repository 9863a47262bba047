"""Find a Java that Apache Kafka and Spark can run on; nothing is installed.

The order: JAVA_HOME, PATH, then /usr/lib/jvm (there the oldest that is new enough: what the machine's packages were built for).
As a program, it prints the home of the Java found, or nothing. The Makefile runs it before anything is installed: standard library only.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

JAVA_VERSION_MIN = 17
JVM_DIRECTORY = Path("/usr/lib/jvm")
# Starts with half the work and stays slower: for tests and for the demo, whose JVMs live for seconds; never for measuring.
# Without the last, Java collects all garbage when its classes take 21 MB: a second of CPU in a Spark that has just started.
QUICK_START_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:MetaspaceSize=128m")


class ToolMissing(Exception):
    """A required program is not on this machine; the text says which, and what to do. Tests print it as their reason to skip."""


def find_java(version_min: int = JAVA_VERSION_MIN) -> Path:
    """The `java` program of a Java that is at least `version_min`. Raises ToolMissing with what was found instead."""
    seen: list[str] = []
    for java in _candidates():
        version = java_version(java)
        if version is not None and version >= version_min:
            return java
        seen.append(f"{java} (Java {version or 'of unknown version'})")
    found = "found only " + ", ".join(seen) if seen else "found none in JAVA_HOME, PATH and /usr/lib/jvm"
    raise ToolMissing(f"needs Java {version_min} or later, {found}: install one (Debian: default-jre-headless) or set JAVA_HOME")


def find_java_home(version_min: int = JAVA_VERSION_MIN) -> Path:
    """The installation that `find_java` finds, as JAVA_HOME names it. Raises ToolMissing."""
    return _home(find_java(version_min))


def java_version(java: Path) -> int | None:
    """The feature version (17, 21, ...) of a `java` program, None when it cannot be determined."""
    release = _home(java) / "release"
    if release.is_file():
        stated = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
        if stated:
            return _feature_version(stated.group(1))
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return None
    stated = re.search(r'version "([^"]+)"', ran.stderr)
    return _feature_version(stated.group(1)) if stated else None


def _home(java: Path) -> Path:
    """The installation of a `java` program, which may be a symbolic link into it."""
    return java.resolve().parent.parent


def _feature_version(text: str) -> int | None:
    """17 of "17.0.15", 8 of the old form "1.8.0_392"."""
    numbers = re.match(r"(?:1\.)?(\d+)", text)
    return int(numbers.group(1)) if numbers else None


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home and (java := Path(home) / "bin" / "java").is_file():
        yield java
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    installed = [java for java in JVM_DIRECTORY.glob("*/bin/java") if java.is_file()]
    yield from sorted(installed, key=lambda java: (java_version(java) or 0, str(java)))


def main() -> None:
    """Print the home of the Java found, or nothing."""
    try:
        sys.stdout.write(f"{find_java_home()}\n")
    except ToolMissing:
        return


if __name__ == "__main__":
    main()
