"""Gathers the evidence of all sources that a command names, and says what was read, what was skipped, and how far clocks are apart."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from glob import glob
from pathlib import Path
from typing import Final

from ottla.cli.diagnose.log_files import LogFiles
from ottla.cli.diagnose.looks import look_at_cluster
from ottla.cli.diagnose.offsets_topic import OffsetsTopic, SourceError
from ottla.cli.groups.client_config import client_settings
from ottla.core.diagnosis.evidence.clock_skew import estimate_skews
from ottla.core.diagnosis.evidence.model import Evidence
from ottla.core.diagnosis.rounds.part import SOURCE_RANK
from ottla.core.text import printable

CLIENT_ID: Final = "ottla-diagnose"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a command line names. Files and directories may be patterns."""

    bootstrap_server: str | None = None
    command_config: str | None = None
    broker_logs: Sequence[str] = ()
    client_logs: Sequence[str] = ()
    offsets_topics: Sequence[str] = ()
    archives: Sequence[str] = ()
    groups: Sequence[str] = ()

    @property
    def names_a_source(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.bootstrap_server or self.broker_logs or self.client_logs or self.offsets_topics or self.archives)


@dataclass(slots=True)
class Gathered:
    """All evidence, and lines for people about where it came from."""

    evidence: list[Evidence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def gather(options: SourceOptions, *, zone: tzinfo) -> Gathered:
    """Read every source. Raises SourceError, ClientError, CommandFailed or ValueError where one cannot be used at all."""
    logs = LogFiles(zone=zone, processes=os.cpu_count() or 1)
    for pattern in options.broker_logs:
        logs.add_broker_logs(pattern)
    for pattern in options.client_logs:
        logs.add_client_logs(pattern)
    gathered = Gathered()
    with OffsetsTopic(options.groups or None) as topic:
        _add_topics(topic, options)
        gathered.evidence += topic.evidence()
        gathered.evidence += _of_groups(logs.evidence(), options.groups)
        gathered.notes += _topic_notes(topic)
    if options.bootstrap_server and topic.problems and not gathered.evidence:
        settings = client_settings(options.bootstrap_server, options.command_config, client_id=CLIENT_ID)
        gathered.evidence += look_at_cluster(settings, options.groups, gathered.notes.append)
    gathered.notes += [f"{printable(name)}: {counts}" for name, counts in logs.counts.items()]
    gathered.notes += [printable(problem) for problem in logs.problems]
    gathered.notes += _clock_notes(gathered.evidence)
    return gathered


def _add_topics(topic: OffsetsTopic, options: SourceOptions) -> None:
    for pattern in options.offsets_topics:
        for path in _directories(pattern):
            topic.add_directory(path)
    for pattern in options.archives:
        for path in _directories(pattern):
            topic.add_archive(path)
    if options.bootstrap_server:
        topic.add_cluster(client_settings(options.bootstrap_server, options.command_config, client_id=CLIENT_ID))


def _directories(pattern: str) -> list[Path]:
    if Path(pattern).exists():
        return [Path(pattern)]
    found = [Path(each) for each in sorted(glob(pattern)) if Path(each).is_dir()]
    if not found:
        raise SourceError(f"{pattern}: no such directory")
    return found


def _of_groups(evidence: Iterator[Evidence], groups: Sequence[str]) -> Iterator[Evidence]:
    """What is about these groups, or about none that is named."""
    return (item for item in evidence if not groups or item.group is None or item.group in groups)


def _topic_notes(topic: OffsetsTopic) -> list[str]:
    counts, notes = topic.counts, []
    if counts.records:
        types = ", ".join(f"{count:,} {name}" for name, count in counts.record_types.most_common(4))
        notes.append(f"offsets topic: {counts.records:,} records ({types})")
    skipped = {
        "unreadable records": counts.unreadable_records,
        "damaged batches": counts.damaged_batches,
        "bytes torn off": counts.torn_bytes,
        "records of aborted transactions": counts.aborted_records,
        "records of pending transactions": counts.pending_records,
    }
    missed = ", ".join(f"{count:,} {name}" for name, count in skipped.items() if count)
    return [*notes, *([f"offsets topic: skipped {missed}"] if missed else []), *map(printable, topic.problems)]


def _clock_notes(evidence: Sequence[Evidence]) -> list[str]:
    """How far each clock is from that of the most informative source, which has most evidence."""
    amounts = Counter((SOURCE_RANK[item.source], item.clock) for item in evidence)
    if len(amounts) < 2:
        return []
    _, reference = min(amounts, key=lambda each: (each[0], -amounts[each]))
    skews = estimate_skews(evidence, reference=reference)
    return [printable(str(skew)) for skew in skews.values()]
