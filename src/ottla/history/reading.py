"""Reads all sources that are named into evidence, and says what was read, what was skipped, and how far clocks are apart."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from functools import cached_property
from glob import glob
from multiprocessing import cpu_count
from pathlib import Path
from typing import Final

from ottla.client.admin.client import AdminClient
from ottla.client.admin.waiting_groups import waiting_groups
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings, parse_client_settings
from ottla.history.group_history import GroupHistory, Rebalance, group_histories
from ottla.history.incidents import Incident, find_incidents
from ottla.history.rounds.splitting import SOURCE_RANK
from ottla.history.sources.admin import look_at_cluster
from ottla.history.sources.clocks import estimate_skews
from ottla.history.sources.evidence import Evidence, SourceError
from ottla.history.sources.log_files import LogFiles
from ottla.history.sources.offsets_topic import OffsetsTopic
from ottla.history.times import machine_zone, parse_time_ms
from ottla.protocol.errors import PeerError
from ottla.text import printable

CLIENT_ID: Final = "ottla-history"
Paths = str | Path | Sequence[str | Path]
Moment = datetime | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where to read. Files and directories may be patterns; `client`: how to reach a cluster; `groups`: only these, none for all."""

    broker_logs: Sequence[str] = ()
    client_logs: Sequence[str] = ()
    offsets_topics: Sequence[str] = ()
    archives: Sequence[str] = ()
    client: ClientSettings | None = None
    groups: Sequence[str] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to read."""
        return bool(self.client or self.broker_logs or self.client_logs or self.offsets_topics or self.archives)


@dataclass(slots=True)
class Gathered:
    """All evidence, and lines for people about where it came from."""

    evidence: list[Evidence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    """Whose lag is behind an open transaction now, and whose transaction that is; sentences."""


class Groups(dict[str, GroupHistory]):
    """The history of each group, by its id.

    `notes`, sentences for people: what was read, what was skipped, and whose lag is behind an open transaction.
    """

    def __init__(self, histories: Mapping[str, GroupHistory], notes: Sequence[str]) -> None:
        super().__init__(histories)
        self.notes = tuple(notes)

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """What happened to these groups, in the order of its times: each rebalance is in one incident, which may be of several groups."""
        return tuple(find_incidents(verdict for history in self.values() for verdict in history.verdicts))


def read(
    *,
    broker_logs: Paths = (),
    client_logs: Paths = (),
    offsets_topic: Paths = (),
    archive: Paths = (),
    bootstrap_servers: str | None = None,
    client: Mapping[str, str] | None = None,
    groups: str | Sequence[str] = (),
    since: Moment = None,
    until: Moment = None,
    zone: tzinfo | None = None,
) -> Groups:
    """The history of groups from files, directories and a running cluster: what `ottla diagnose` reads, for Python programs.

    broker_logs, client_logs: log files, plain or gzip. offsets_topic: directories with `__consumer_offsets-N` folders. archive: what
    `ottla watch` stored. Each is one path or several; paths may be patterns. bootstrap_servers: a cluster; client: further properties of a
    Kafka client, such as `security.protocol`. groups: only these. since, until: only rebalances that began in this time, datetimes or texts
    as `--since` takes them (`2h`, `2026-11-22T14:31`). zone: of log lines and texts that name none; this machine's unless given.

    Raises SourceError for a path that is not there, ValueError for properties and times that are none, ClientError or PeerError where the
    cluster does not answer. What is there and cannot be read, or only in part, is in the `notes`.
    """
    zone = machine_zone() if zone is None else zone
    since_ms, until_ms = _moment_ms(since, zone), _moment_ms(until, zone)
    settings = None
    if bootstrap_servers is not None:
        settings = parse_client_settings({"client.id": CLIENT_ID} | dict(client or {}) | {"bootstrap.servers": bootstrap_servers})
    sources = Sources(
        broker_logs=_texts(broker_logs),
        client_logs=_texts(client_logs),
        offsets_topics=_texts(offsets_topic),
        archives=_texts(archive),
        client=settings,
        groups=(groups,) if isinstance(groups, str) else tuple(groups),
    )
    if not sources:
        raise ValueError("nothing to read: name broker_logs, client_logs, offsets_topic, archive or bootstrap_servers")
    gathered = gather(sources, zone=zone)
    histories = {
        group: replace(
            history, rebalances=tuple(rebalance for rebalance in history.rebalances if _began_within(rebalance, since_ms, until_ms))
        )
        for group, history in sorted(group_histories(gathered.evidence).items())
        if not sources.groups or group in sources.groups
    }
    return Groups(histories, [*gathered.notes, *gathered.waiting])


def _texts(paths: Paths) -> tuple[str, ...]:
    return (str(paths),) if isinstance(paths, str | Path) else tuple(map(str, paths))


def _moment_ms(moment: Moment, zone: tzinfo) -> int | None:
    if isinstance(moment, str):
        return parse_time_ms(moment, now_ms=time.time_ns() // 1_000_000, zone=zone)
    if moment is None:
        return None
    return round((moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).timestamp() * 1000)


def _began_within(rebalance: Rebalance, since_ms: int | None, until_ms: int | None) -> bool:
    return (since_ms is None or rebalance.started_ms >= since_ms) and (until_ms is None or rebalance.started_ms < until_ms)


def gather(sources: Sources, *, zone: tzinfo) -> Gathered:
    """Read every source. Raises SourceError, ClientError or PeerError where one cannot be used at all."""
    logs = LogFiles(zone=zone, processes=cpu_count())
    for pattern in sources.broker_logs:
        logs.add_broker_logs(pattern)
    for pattern in sources.client_logs:
        logs.add_client_logs(pattern)
    gathered = Gathered()
    with OffsetsTopic(sources.groups or None) as topic:
        _add_topics(topic, sources)
        gathered.evidence += topic.evidence()
        gathered.evidence += _of_groups(logs.evidence(), sources.groups)
        gathered.notes += _topic_notes(topic)
    if sources.client and topic.problems and not gathered.evidence:
        gathered.evidence += look_at_cluster(sources.client, sources.groups, gathered.notes.append)
    if sources.client:
        _add_waiting(sources.client, sources.groups, gathered)
    gathered.notes += [f"{printable(name)}: {counts}" for name, counts in logs.counts.items()]
    gathered.notes += [printable(problem) for problem in logs.problems]
    gathered.notes += _clock_notes(gathered.evidence)
    return gathered


def _add_waiting(client: ClientSettings, groups: Sequence[str], gathered: Gathered) -> None:
    try:
        with AdminClient(client) as admin:
            gathered.waiting += [each.in_words(time.time_ns() // 1_000_000) for each in waiting_groups(admin, groups)]
    except (ClientError, PeerError) as error:
        gathered.notes.append(f"open transactions could not be looked for: {error}")


def _add_topics(topic: OffsetsTopic, sources: Sources) -> None:
    for pattern in sources.offsets_topics:
        for path in directories(pattern):
            topic.add_directory(path)
    for pattern in sources.archives:
        for path in directories(pattern):
            topic.add_archive(path)
    if sources.client:
        topic.add_cluster(sources.client)


def directories(pattern: str) -> list[Path]:
    """The directories that a path or a pattern names. Raises SourceError where there is none."""
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
