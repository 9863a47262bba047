"""The test data of one run: what a broker and its clients left, made small, without names of the machine; written and read.

In the directory of a run: `labels.json`; `broker.log.gz` (the lines of group coordinators, and some of the others);
`offsets-topic.tar.xz` (the folders of the used partitions of `__consumer_offsets`); `client-logs.tar.xz` (INCIDENT/MEMBER.CLIENT.log);
`group-events.jsonl.gz` (Ottla's own events).
"""

import gzip
import io
import re
import socket
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ottla.testing.incidents.labels import Incident, from_json, to_json

LABELS, BROKER_LOG, OFFSETS, CLIENT_LOGS, EVENTS = (
    "labels.json",
    "broker.log.gz",
    "offsets-topic.tar.xz",
    "client-logs.tar.xz",
    "group-events.jsonl.gz",
)
COORDINATOR_LINE: Final = re.compile(r"coordinator\.group|GroupCoordinator|GroupMetadata|\[GroupId|\[Group |groupId=|ottla\.broker\.groups")
KEEP_EVERY: Final = 10
"""Of the other lines of a broker's log."""
LINE_MAX: Final = 4_000
IN_GROUP: Final = re.compile(r"groupId=([^,\] ]+)")


def broker_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines of coordinators, and one of ten of the others."""
    others = 0
    for line in lines:
        if COORDINATOR_LINE.search(line):
            yield line
        else:
            others += 1
            if others % KEEP_EVERY == 1 and line.startswith("["):
                yield line[:LINE_MAX].rstrip("\n") + "\n"


def lines_by_group(lines: Iterable[str]) -> dict[str, list[str]]:
    """The lines of a log that many groups share, by the group that each names; lines without one belong to the line before."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        named = IN_GROUP.search(line)
        if named:
            current = found.setdefault(named.group(1), [])
            current.append(line)
    return found


def write_run(
    directory: Path,
    *,
    incidents: Iterable[Incident],
    broker_log: Path,
    data_directory: Path,
    client_logs: Mapping[str, str],
    events: Iterable[str],
    secrets: Mapping[str, str],
) -> None:
    """Write the test data of a run. `secrets`: texts of this machine, and what stands for them."""
    directory.mkdir(parents=True, exist_ok=True)
    masked = {re.escape(secret): stand_in for secret, stand_in in secrets.items()}
    masked[rf"(?<![\w.+/-]){re.escape(socket.gethostname())}(?![\w.+/=-])"] = "host"
    (directory / LABELS).write_text(to_json(incidents))
    with broker_log.open(errors="replace") as lines:
        _write_gzip(directory / BROKER_LOG, _mask("".join(broker_lines(lines)), masked))
    _write_tar(directory / CLIENT_LOGS, {name: _mask(text, masked).encode() for name, text in client_logs.items()})
    _write_tar(directory / OFFSETS, _offsets_segments(data_directory))
    lines_of_events = "".join(f"{line}\n" for line in events)
    if lines_of_events:
        _write_gzip(directory / EVENTS, lines_of_events)


def read_labels(directory: Path) -> list[Incident]:
    """The labels of a run."""
    return from_json((directory / LABELS).read_text())


def unpack(archive: Path, directory: Path) -> None:
    """Unpack one of the archives of a run."""
    with tarfile.open(archive) as opened:
        opened.extractall(directory, filter="data")


def _offsets_segments(data_directory: Path) -> dict[str, bytes]:
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in sorted(data_directory.glob("__consumer_offsets-*/*.log"))
        if path.stat().st_size
    }


def _mask(text: str, patterns: Mapping[str, str]) -> str:
    for pattern, stand_in in patterns.items():
        text = re.sub(pattern, stand_in, text)
    return text


def _write_gzip(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _write_tar(path: Path, files: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w:xz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
