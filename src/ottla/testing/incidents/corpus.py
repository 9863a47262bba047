"""Reads a recorded run with Ottla's own readers: the evidence of each incident, by source."""

import gzip
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path

from ottla.core.diagnosis.evidence.broker_log.parser import broker_log_reader
from ottla.core.diagnosis.evidence.client_log.parser import client_log_reader
from ottla.core.diagnosis.evidence.group_events import evidence_of_event, read_event
from ottla.core.diagnosis.evidence.group_records import GroupRecords
from ottla.core.diagnosis.evidence.model import Evidence, Source
from ottla.core.diagnosis.evidence.read_counts import ReadCounts
from ottla.core.groups.log.evidence_decoding import EvidenceDecoder
from ottla.core.metadata.topics import CONSUMER_OFFSETS
from ottla.core.records.committed_records import CommittedRecords
from ottla.storage.archive.partition_folders import FolderProblems, find_partitions, read_batches
from ottla.storage.files import OsFiles
from ottla.testing.incidents.labels import Incident
from ottla.testing.incidents.recording import BROKER_LOG, CLIENT_LOGS, EVENTS, LABELS, OFFSETS, read_labels, unpack

CORPUS = Path("tests/data/diagnosis")


@dataclass(frozen=True, slots=True)
class RecordedIncident:
    """An incident with what each source says about its group; a source that its cluster does not have is missing."""

    incident: Incident
    evidence: dict[Source, list[Evidence]] = field(default_factory=dict)


def read_corpus(directory: Path) -> Iterator[RecordedIncident]:
    """The incidents of all runs below a directory."""
    for labels in sorted(directory.glob(f"*/{LABELS}")):
        yield from read_run(labels.parent)


def read_run(directory: Path) -> list[RecordedIncident]:
    """The incidents of one run."""
    incidents = read_labels(directory)
    clients = _client_evidence(directory / CLIENT_LOGS)
    by_group = {
        Source.OFFSETS_TOPIC: _by_group(_offsets_evidence(directory / OFFSETS)),
        Source.BROKER_LOG: _by_group(_broker_evidence(directory / BROKER_LOG)),
    }
    if (directory / EVENTS).exists():
        by_group[Source.GROUP_EVENTS] = _by_group(_event_evidence(directory / EVENTS))
    found = []
    for incident in incidents:
        evidence = {source: groups.get(incident.group, []) for source, groups in by_group.items()}
        evidence[Source.CLIENT_LOG] = clients.get(incident.id, [])
        found.append(RecordedIncident(incident, evidence))
    return found


def _by_group(evidence: Iterable[Evidence]) -> dict[str, list[Evidence]]:
    groups: dict[str, list[Evidence]] = {}
    for item in evidence:
        if item.group is not None:
            groups.setdefault(item.group, []).append(item)
    return groups


def _broker_evidence(path: Path) -> Iterator[Evidence]:
    with gzip.open(path, "rb") as lines:
        yield from broker_log_reader(clock="broker", zone=UTC).read(lines)


def _event_evidence(path: Path) -> Iterator[Evidence]:
    with gzip.open(path, "rb") as lines:
        for line in lines:
            event = read_event(line)
            assert event is not None, "Ottla's own events can be read"
            if (found := evidence_of_event(event, clock="events")) is not None:
                yield found


def _client_evidence(path: Path) -> dict[str, list[Evidence]]:
    """By incident: the evidence of all its clients' logs, each of which has its own clock."""
    found: dict[str, list[Evidence]] = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            lines = archive.extractfile(entry)
            assert lines is not None
            reader = client_log_reader(clock=entry.name, zone=UTC)
            found.setdefault(entry.name.partition("/")[0], []).extend(reader.read(lines))
    return found


def _offsets_evidence(path: Path) -> Iterator[Evidence]:
    with tempfile.TemporaryDirectory() as directory:
        unpack(path, Path(directory))
        files, names = OsFiles(Path(directory)), dict[str, str]()
        for partition, folder in find_partitions(files, CONSUMER_OFFSETS).items():
            committed = CommittedRecords()
            reader = GroupRecords(partition, decode=EvidenceDecoder().decode, counts=ReadCounts(), topic_names=names)
            for batch in read_batches(files, folder, FolderProblems()):
                yield from reader.read(committed.read(batch.data, batch.header))
            yield from reader.finish()
