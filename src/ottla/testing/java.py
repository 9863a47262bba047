"""Where a Java is that Apache Kafka and Spark can run on: finds one, never installs one.

Looked for in the order in which people set things: JAVA_HOME, PATH, then what the system keeps in /usr/lib/jvm (there the oldest that is
new enough, because that is the one that everything on the machine was built for).
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

JAVA_VERSION_MIN = 17
JVM_DIRECTORY = Path("/usr/lib/jvm")


class ToolMissing(Exception):
    """A program that is needed is not on this machine; the text says which, and what to do. Tests print it as their reason to skip."""


def find_java(version_min: int = JAVA_VERSION_MIN) -> Path:
    """The `java` program of a Java that is at least `version_min`.

    Raises ToolMissing with what was looked at.
    """
    seen: list[str] = []
    for java in _candidates():
        version = java_version(java)
        if version is not None and version >= version_min:
            return java
        seen.append(f"{java} (Java {version or 'of unknown version'})")
    found = "found only " + ", ".join(seen) if seen else "found none in JAVA_HOME, PATH and /usr/lib/jvm"
    raise ToolMissing(f"needs Java {version_min} or later, {found}: install one (Debian: default-jre-headless) or set JAVA_HOME")


def java_version(java: Path) -> int | None:
    """The feature version (17, 21, ...) of a `java` program, None when it does not tell."""
    release = java.resolve().parent.parent / "release"
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
