"""All evidence that one run left: the broker's own events, its log, the offsets topic, and the logs of the clients."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from pathlib import Path

from ottla.core.diagnosis.evidence.broker_log.parser import broker_log_reader
from ottla.core.diagnosis.evidence.client_log.parser import client_log_reader
from ottla.core.diagnosis.evidence.group_events import evidence_of_event
from ottla.core.diagnosis.evidence.group_records import GroupRecords
from ottla.core.diagnosis.evidence.model import Evidence
from ottla.core.diagnosis.evidence.read_counts import ReadCounts
from ottla.core.groups.log.evidence_decoding import EvidenceDecoder
from ottla.core.metadata.topics import CONSUMER_OFFSETS
from ottla.core.model import GroupEvent
from ottla.core.records.committed_records import CommittedRecords
from ottla.core.records.merged_batches import merge_batches
from ottla.core.whatif.prediction import evidence_of_group
from ottla.storage.archive.partition_folders import FolderProblems, find_partitions, read_batches
from ottla.storage.files import OsFiles
from ottla.testing.incidents.clusters import IncidentCluster
from ottla.testing.whatif_trials.run import TrialRun


def evidence_of_run(run: TrialRun, cluster: IncidentCluster) -> list[Evidence]:
    """The evidence of the run's group until its end; clients that were ended afterwards do not count."""
    found: list[Evidence] = []
    if cluster.events:
        found += _events(cluster.events)
    else:
        found += _offsets_topic(cluster.data_directory, run.group)
        with cluster.log_path.open("rb") as lines:
            found += broker_log_reader(clock="broker", zone=UTC).read(lines)
    found += _client_logs(run.log_paths())
    return evidence_of_group(run.group, (item for item in found if item.at_ms <= run.ended_ms))


def _events(events: Iterable[GroupEvent]) -> Iterator[Evidence]:
    for event in list(events):
        item = evidence_of_event(event, clock="broker")
        if item is not None:
            yield item


def _offsets_topic(data_directory: Path, group: str) -> Iterator[Evidence]:
    files = OsFiles(data_directory)
    for partition, folder in find_partitions(files, CONSUMER_OFFSETS).items():
        committed = CommittedRecords()
        reader = GroupRecords(partition, decode=EvidenceDecoder().decode, counts=ReadCounts(), groups=frozenset({group}), topic_names={})
        for batch in merge_batches([read_batches(files, folder, FolderProblems())]):
            yield from reader.read(committed.read(batch.data, batch.header))
        yield from reader.finish()


def _client_logs(paths: Sequence[Path]) -> Iterator[Evidence]:
    for path in paths:
        with path.open("rb") as lines:
            yield from client_log_reader(clock=path.name, zone=UTC).read(lines)
