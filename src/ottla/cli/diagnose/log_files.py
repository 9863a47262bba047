"""Log files of brokers and clients as a source of evidence: plain or gzip, rotated, given by name or by pattern.

Each log is one clock, named by its path; rotated files (`server.log.1`, `server.log.2026-11-22-13`, either with `.gz`) belong to the
log that they are named after. A file that cannot be read, or only in part, is a problem that is said, not an error.
"""

import glob
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Final, NamedTuple

from ottla.cli.diagnose.log_parts import Part, read_parts, split_file
from ottla.cli.diagnose.offsets_topic import SourceError
from ottla.core.diagnosis.evidence.log_counts import LogCounts
from ottla.core.diagnosis.evidence.model import Evidence, Source

ROTATED: Final = re.compile(r"(?P<log>.+?)(?:\.(?P<number>\d{1,6})|[.-](?P<date>\d{4}-\d\d-\d\d(?:-\d\d)?))?(?:\.gz)?")


class Log(NamedTuple):
    """One log: its files, the oldest first."""

    source: Source
    name: str
    paths: Sequence[Path]


class LogFiles:
    """Add logs, then read `evidence()` once; `counts` (by log) and `problems` say afterwards what was read and what could not be.

    zone: of times that name none. processes: how many read side by side. progress: called with the bytes that were read of a file.
    """

    def __init__(self, *, zone: tzinfo, processes: int = 1, progress: Callable[[int], None] = lambda _: None) -> None:
        self.counts: dict[str, LogCounts] = {}
        self.problems: list[str] = []
        self._zone = zone
        self._processes = processes
        self._progress = progress
        self._paths: dict[Source, dict[Path, None]] = {Source.BROKER_LOG: {}, Source.CLIENT_LOG: {}}

    def add_broker_logs(self, pattern: str) -> None:
        """Add the files that a name or a pattern stands for. Raises SourceError where there are none."""
        self._paths[Source.BROKER_LOG].update(dict.fromkeys(matching_files(pattern)))

    def add_client_logs(self, pattern: str) -> None:
        """Add the files that a name or a pattern stands for. Raises SourceError where there are none."""
        self._paths[Source.CLIENT_LOG].update(dict.fromkeys(matching_files(pattern)))

    @property
    def size_bytes(self) -> int:
        """Of all files, for the progress."""
        return sum(path.stat().st_size for paths in self._paths.values() for path in paths if path.exists())

    def evidence(self) -> Iterator[Evidence]:
        """All evidence, log by log, each in the order of its lines."""
        for result in read_parts(list(self._parts()), zone=self._zone, processes=self._processes):
            yield from result.evidence
            self.counts[result.part.log] = self.counts.get(result.part.log, LogCounts()) + result.counts
            self.problems += result.problems
            self._progress(result.part.end - result.part.start)

    def _parts(self) -> Iterator[Part]:
        for source, paths in self._paths.items():
            for log in group_rotated(source, list(paths)):
                for before, path in zip([None, *log.paths], log.paths, strict=False):
                    yield from split_file(source, log.name, path, before)


def matching_files(pattern: str) -> list[Path]:
    """The files of a name or a pattern (`*`, `?`, `[]`, `**`). Raises SourceError where there are none."""
    path = Path(pattern)
    if path.is_dir():
        raise SourceError(f"{pattern} is a directory: name its log files, e.g. {path / '*.log*'}")
    matches = [path] if path.exists() else map(Path, sorted(glob.glob(pattern, recursive=True)))
    found = [each for each in matches if not each.is_dir()]
    if not found:
        raise SourceError(f"{pattern}: no such file")
    return found


def group_rotated(source: Source, paths: Sequence[Path]) -> list[Log]:
    """The logs that files belong to. Of one log the file without a number or date is the newest; higher numbers are older."""
    logs: dict[str, list[tuple[tuple[int, str, int], Path]]] = {}
    for path in paths:
        found = ROTATED.fullmatch(path.name)
        if found is None:
            logs.setdefault(str(path), []).append(((1, "", 0), path))
            continue
        number, date = found["number"], found["date"]
        age = (0, date or "", -int(number or 0)) if number or date else (1, "", 0)
        logs.setdefault(str(path.with_name(found["log"])), []).append((age, path))
    return [Log(source, name, [path for _, path in sorted(files)]) for name, files in logs.items()]
