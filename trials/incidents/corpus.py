"""The recorded incidents: labels, the test data of a run in tests/data/diagnosis, and what each source says about each group.

In the directory of a run: `labels.json`; `broker.log.gz` (the lines of group coordinators, and some of the others);
`offsets-topic.tar.xz` (the folders of the used partitions of `__consumer_offsets`); `client-logs.tar.xz` (INCIDENT/MEMBER.CLIENT.log);
`group-events.jsonl.gz` (Ottla's own events). Nothing in them names the machine.
"""

import gzip
import hashlib
import io
import json
import re
import socket
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any, Final, Self

from ottla.groups.log.records import EvidenceDecoder
from ottla.history.sources.archive import FolderProblems, find_partitions, read_batches
from ottla.history.sources.broker_log import broker_log_reader
from ottla.history.sources.client_log import client_log_reader
from ottla.history.sources.evidence import Cause, Evidence, Source
from ottla.history.sources.group_events import evidence_of_events, read_event
from ottla.history.sources.group_records import GroupRecords, ReadCounts
from ottla.log.files import OsFiles
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.records.control import CommittedRecords
from trials.harness.world import CACHE

# --- labels


REBALANCE: Final = "rebalance"
AVOIDED: Final = "avoided"
MAKING: Final = "making"
"""Rules are written looking at this half only."""
MEASURING: Final = "measuring"
"""Published figures come from this half only."""

PLANNED: Final = frozenset(
    {
        Cause.COLD_START,
        Cause.JOIN_NEW,
        Cause.LEAVE_CLOSE,
        Cause.TOPIC_CHANGE,
        Cause.SUBSCRIPTION,
        Cause.ASSIGNOR_CHANGE,
        Cause.ADMIN,
        Cause.ENFORCED,
        Cause.MIGRATION,
        Cause.COOP_FOLLOWUP,
    }
)
AVOIDABLE: Final = frozenset(
    {
        Cause.RESTART_DYNAMIC,
        Cause.EXPIRE_HEARTBEAT,
        Cause.POLL_TIMEOUT,
        Cause.JOIN_TIMEOUT,
        Cause.SYNC_TIMEOUT,
        Cause.LEADER_REJOIN_SPURIOUS,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRebalance:
    """What one step of an incident caused between two times (milliseconds since 1970).

    cause: of the first and, if there are several, of most rebalances of that time. also: causes that further ones may have, such as the
    second half of a cooperative rebalance. is_action: caused by the incident's action, not by its set-up. is_certain: there is one; if not,
    it depends on the client (a coordinator that moves).
    """

    from_ms: int
    to_ms: int
    cause: str
    also: tuple[str, ...]
    kind: str
    is_action: bool
    is_certain: bool
    planned: bool
    avoidable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident of the corpus. `end_ms`: what happens to the group later is not labelled. action: what was done to the actor.

    actor: the member that it happened to, an index of `clients`.
    """

    id: str
    run: str
    cluster: str
    group: str
    protocol: str
    assignor: str
    clients: tuple[str, ...]
    actor: int
    cause: str
    action: str
    end_ms: int
    half: str
    rebalances: tuple[LabelledRebalance, ...]

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The incident that was written."""
        rebalances = tuple(LabelledRebalance(**(each | {"also": tuple(each["also"])})) for each in fields["rebalances"])
        return cls(**(fields | {"clients": tuple(fields["clients"]), "rebalances": rebalances}))


def halved(incidents: Iterable[Incident]) -> list[Incident]:
    """The incidents with their halves: alternating, in the order of a hash of their ids, within each cause and cluster."""
    counts: dict[tuple[str, str], int] = {}
    halves: dict[str, str] = {}
    everything = list(incidents)
    for incident in sorted(everything, key=lambda each: hashlib.sha256(each.id.encode()).digest()):
        place = (incident.cluster, incident.cause)
        counts[place] = counts.get(place, 0) + 1
        halves[incident.id] = MAKING if counts[place] % 2 else MEASURING
    return [Incident.from_dict(asdict(each) | {"half": halves[each.id]}) for each in everything]


def to_json(incidents: Iterable[Incident]) -> str:
    """The incidents as a JSON array, one a line."""
    return "[\n" + ",\n".join(json.dumps(asdict(each)) for each in incidents) + "\n]\n"


def from_json(text: str) -> list[Incident]:
    """What `to_json` wrote."""
    return [Incident.from_dict(each) for each in json.loads(text)]


# --- test data


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
    (directory / LABELS).write_text(to_json(incidents))
    with broker_log.open(errors="replace") as lines:
        _write_gzip(directory / BROKER_LOG, mask("".join(broker_lines(lines)), secrets))
    write_tar(directory / CLIENT_LOGS, {name: mask(text, secrets).encode() for name, text in client_logs.items()})
    write_tar(directory / OFFSETS, _offsets_segments(data_directory))
    lines_of_events = "".join(f"{line}\n" for line in events)
    if lines_of_events:
        _write_gzip(directory / EVENTS, lines_of_events)


def read_labels(directory: Path) -> list[Incident]:
    """The labels of a run."""
    return from_json((directory / LABELS).read_text())


def unpack(archive: Path, directory: Path) -> None:
    """Unpack one of the archives of a run."""
    # Not `extractall`: without a filter it is deprecated, and Python 3.11 has filters only from 3.11.4 on.
    with tarfile.open(archive) as files:
        for entry in files:
            content = files.extractfile(entry)
            assert content is not None, f"{entry.name} is not a file"
            path = directory / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())


def _offsets_segments(data_directory: Path) -> dict[str, bytes]:
    return {
        f"{path.parent.name}/{path.name}": path.read_bytes()
        for path in sorted(data_directory.glob("__consumer_offsets-*/*.log"))
        if path.stat().st_size
    }


def secrets_of(directory: Path) -> dict[str, str]:
    """Texts of this machine and of a run in `directory`, and what stands for them in test data."""
    named = {directory: "/data", CACHE.resolve(): "/cache", sys.prefix: "/venv", sys.base_prefix: "/python", Path.cwd(): "/ottla"}
    return {str(secret): stand_in for secret, stand_in in named.items()}


def mask(text: str, secrets: Mapping[str, str]) -> str:
    """The text with what stands for each secret, and for the name of this machine."""
    for secret, stand_in in secrets.items():
        text = text.replace(secret, stand_in)
    return re.sub(rf"(?<![\w.+/-]){re.escape(socket.gethostname())}(?![\w.+/=-])", "host", text)


def _write_gzip(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def write_tar(path: Path, files: Mapping[str, bytes]) -> None:
    """Pack files by their names."""
    with tarfile.open(path, "w:xz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


# --- evidence


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
            yield from evidence_of_events([event], clock="events")


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
