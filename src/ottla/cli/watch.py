"""One run of `ottla watch`, from its options to its exit status: looks at intervals, a line of progress, and a summary at the end.

Of several clusters each has a thread, so that one that does not respond holds no other up. After each look alerts are evaluated, and what
`--metrics` serves is replaced. Ctrl-C and SIGTERM end it at any moment; what is stored by then is whole.
"""

import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from ottla.cli.clusters import CommandFailed, client_settings, of_error
from ottla.cli.signals import Stopped, raising_stopped
from ottla.client.admin.client import AdminClient
from ottla.client.errors import ClientError
from ottla.client.fetch.fetcher import Fetcher
from ottla.history.alerts import AlertEvent, GroupFacts, Rule
from ottla.history.live import KEEP_MS, LiveHistory
from ottla.history.sources.archive import ArchiveWriter
from ottla.history.sources.archive_retention import FOR_EVER, ArchiveRetention, Retention
from ottla.history.watch import Watch, WatchSummary
from ottla.log.files import OsFiles
from ottla.protocol.errors import PeerError, StorageError
from ottla.text import printable

if TYPE_CHECKING:
    from ottla.cli.alert_actions import Action, ClusterAlerts, Courier
    from ottla.cli.watch_metrics import GroupsOfWatch, WatchState

_CLEAR_LINE: Final = "\r\x1b[K"
_NAMED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99})=(.+)", re.DOTALL)
BACK_OFF_S_MAX: Final = 10.0
"""Between two looks at a cluster that does not respond, unless --interval is longer."""
CALL_MS_MAX: Final = 5_000
"""Of each request with all its attempts, where alerts or metrics have to say soon that a cluster does not respond."""
RETENTION_INTERVAL_S: Final = 60.0
STOP_S_MAX: Final = 3.0
"""For looks and deliveries that run when the watch ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """`bootstrap_servers`: addresses, each with `NAME=` before it where there are several clusters. `groups` None: all. `duration_s` None:
    until a signal. `metrics`: where they are served."""

    bootstrap_servers: Sequence[str]
    output: str
    groups: Sequence[str] | None = None
    command_configs: Sequence[str] = ()
    interval_s: float = 5.0
    duration_s: float | None = None
    as_json: bool = False
    retention: Retention = FOR_EVER
    metrics: tuple[str, int] | None = None
    rules: Sequence[Rule] = ()
    actions: "Sequence[Action]" = field(default=())

    @property
    def is_service(self) -> bool:
        """Whether a cluster that does not respond at the start is tried again: alerts and metrics say so, and others are watched."""
        return self.needs_history or len(self.bootstrap_servers) > 1

    @property
    def needs_history(self) -> bool:
        """Whether each look is judged."""
        return self.metrics is not None or bool(self.rules)


class Display:
    """What a person or a program sees: sentences to `err`, a line of progress there if it is a terminal, JSON to `out`. Any thread."""

    def __init__(self, out: TextIO, err: TextIO, *, as_json: bool) -> None:
        self.summaries: dict[str | None, WatchSummary] = {}
        self._out = out
        self._err = err
        self._as_json = as_json
        self._has_progress = err.isatty() and not as_json
        self._lock = threading.Lock()

    @property
    def looks(self) -> int:
        """At all clusters."""
        return sum(summary.looks for summary in self.summaries.values())

    def say(self, text: str, *, cluster: str | None = None) -> None:
        """A sentence."""
        with self._lock:
            self._err.write(f"{_CLEAR_LINE if self._has_progress else ''}{'' if cluster is None else f'{cluster}: '}{text}\n")
            self._err.flush()

    def progress(self) -> None:
        """The figures so far."""
        if self._has_progress:
            with self._lock:
                self._err.write(f"{_CLEAR_LINE}{self._figures()} (Ctrl-C ends)")
                self._err.flush()

    def look(self, cluster: str | None) -> None:
        """The state after a look."""
        self.progress()
        if self._as_json:
            self._line(cluster, is_end=False)

    def alert(self, document: Mapping[str, Any]) -> None:
        """An alert that fires or ends."""
        if self._as_json:
            self._write_line(document)
            return
        group = "" if document["group"] is None else f", group {printable(document['group'])}"
        self.say(f"Alert {document['status']} ({document['rule']}{group}): {document['text']}", cluster=document["cluster"])

    def end(self, output: str) -> None:
        """The summary."""
        if self._as_json:
            for cluster in self.summaries:
                self._line(cluster, is_end=True)
            return
        if self._has_progress:
            self._err.write(_CLEAR_LINE)
            self._err.flush()
        self._out.write(f"{self._figures()}, in {printable(output)}\n")

    def _figures(self) -> str:
        looks, groups, records, stored = (
            sum(getattr(summary, name) for summary in self.summaries.values()) for name in ("looks", "groups", "records", "stored_bytes")
        )
        return f"looks: {looks}, groups: {groups}, records: {records:,}, bytes stored: {stored:,}"

    def _line(self, cluster: str | None, *, is_end: bool) -> None:
        named = {} if cluster is None else {"cluster": cluster}
        self._write_line({**named, **self.summaries[cluster].to_dict(), "ended": is_end})

    def _write_line(self, document: Mapping[str, Any]) -> None:
        with self._lock:
            self._out.write(json.dumps(document) + "\n")
            self._out.flush()


def run(options: WatchOptions, *, out: TextIO, err: TextIO, clock: Callable[[], float] = time.monotonic) -> int:
    """Watch until the time is over or a signal comes; the exit status: 1 if it could not begin or the disk refuses, else 0."""
    display = Display(out, err, as_json=options.as_json)
    problem: str | None = None
    with ExitStack() as stack:
        stack.enter_context(raising_stopped())
        try:
            couriers = _couriers(options, display)
            clusters = [
                _ClusterWatch(name, servers, options, display, couriers, stack)
                for name, servers in parse_clusters(options.bootstrap_servers)
            ]
            for courier in couriers:
                stack.callback(courier.stop, STOP_S_MAX)  # before the archives are closed, which hold what is to be passed on
            _serve_metrics(options, clusters, display, stack)
            if len(clusters) == 1:
                clusters[0].run(clock, time.sleep)
            else:
                _run_all(clusters, clock)
        except (ClientError, PeerError) as error:
            problem = of_error(error)
        except (CommandFailed, StorageError) as error:
            problem = str(error)
        except Stopped:
            pass
    if problem is not None:
        display.say(f"Error: {problem}")
    if problem is None or display.looks:
        display.end(options.output)
    return 0 if problem is None else 1


def parse_clusters(texts: Sequence[str]) -> list[tuple[str | None, str]]:
    """Names and servers; None for the name of the only cluster that has none. Raises CommandFailed."""
    found: list[tuple[str | None, str]] = []
    for text in texts:
        matched = _NAMED.fullmatch(text)
        found.append((None, text) if matched is None else (matched[1], matched[2]))
    names = [name for name, _ in found]
    if len(found) > 1 and (None in names or len(set(names)) < len(names)):
        raise CommandFailed("--bootstrap-server: give each of several clusters a name of its own, as in east=host:9092")
    return found


def _config_of(name: str | None, texts: Sequence[str]) -> str | None:
    """The properties file of a cluster: the last that is given with its name, or else the last without one."""
    own = [text.removeprefix(f"{name}=") for text in texts if name is not None and text.startswith(f"{name}=")]
    of_all = [text for text in texts if _NAMED.fullmatch(text) is None or Path(text).exists()]
    given = own or of_all
    return given[-1] if given else None


def _couriers(options: WatchOptions, display: Display) -> "list[Courier]":
    if not options.actions:
        return []
    from ottla.cli.alert_actions import Courier

    return [Courier(action, say=display.say) for action in options.actions]


def _serve_metrics(options: WatchOptions, clusters: "Sequence[_ClusterWatch]", display: Display, stack: ExitStack) -> None:
    if options.metrics is None:
        return
    from ottla.cli.watch_metrics import serve

    host, port = options.metrics
    try:
        server = serve(host, port, [(each.name, each.last_state) for each in clusters], _now_ms)
    except OSError as error:
        raise CommandFailed(f"--metrics: cannot listen on {host}:{port}: {os.strerror(error.errno) if error.errno else error}") from error
    stack.callback(server.close)
    shown = f"[{host}]" if ":" in host else host
    display.say(f"metrics: http://{shown}:{server.port}/metrics")


def _run_all(clusters: "Sequence[_ClusterWatch]", clock: Callable[[], float]) -> None:
    """A thread for each cluster, until all have ended or one has failed. Raises what that raised."""
    stop = threading.Event()
    failures: list[Exception] = []

    def wait(seconds: float) -> None:
        if stop.wait(seconds):
            raise Stopped

    def run_one(cluster: _ClusterWatch) -> None:
        try:
            cluster.run(clock, wait)
        except Stopped:
            pass
        except Exception as error:  # noqa: BLE001 - it is raised where all are waited for
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=run_one, args=(cluster,), name=f"ottla-watch-{cluster.name}", daemon=True) for cluster in clusters]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
        until = time.monotonic() + STOP_S_MAX
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
    if failures:
        raise failures[0]


class _ClusterWatch:
    """One cluster: opens its archive, and looks until the time is over."""

    def __init__(
        self, name: str | None, servers: str, options: WatchOptions, display: Display, couriers: "Sequence[Courier]", stack: ExitStack
    ) -> None:
        self.name = name
        self._options = options
        self._display = display
        self._couriers = couriers
        try:
            settings = client_settings(servers, _config_of(name, options.command_configs), client_id="ottla-watch")
            if options.needs_history:
                settings = replace(settings, default_api_timeout_ms=min(settings.default_api_timeout_ms, CALL_MS_MAX))
            self._admin = stack.enter_context(AdminClient(settings))
            fetcher = stack.enter_context(Fetcher(settings))
        except ValueError as error:
            raise CommandFailed(f"--bootstrap-server: {error}") from error
        files = OsFiles(options.output if name is None else Path(options.output) / name)
        retention = options.retention
        archive = ArchiveWriter(
            files, now_ms=_now_ms(), groups=options.groups, segment_bytes=retention.segment_bytes, segment_ms=retention.segment_ms
        )
        stack.callback(archive.close)
        live = None
        if options.needs_history:
            keep_ms = max([KEEP_MS, *(rule.within_ms for rule in options.rules)])
            live = LiveHistory(options.groups, now_ms=_now_ms(), keep_ms=keep_ms)
            live.read_archive(files, _now_ms())
        self._watch = Watch(
            admin=self._admin,
            fetcher=fetcher,
            archive=archive,
            groups=options.groups,
            now_ms=_now_ms,
            say=self._say,
            show=display.progress,
            live=live,
        )
        display.summaries[name] = self._watch.summary
        self._retention = None if retention == FOR_EVER else ArchiveRetention(archive, retention)
        self._alerts = self._open_alerts(files)
        self._groups: GroupsOfWatch | None = None
        self._state: WatchState | None = None
        self._failures = 0

    def _open_alerts(self, files: OsFiles) -> "ClusterAlerts | None":
        if not self._options.rules:
            return None
        from ottla.cli.alert_actions import ClusterAlerts

        return ClusterAlerts(files, self._options.rules, self.name, self._couriers, self._display.alert)

    def last_state(self) -> "WatchState":
        """What is served: as of the last look."""
        from ottla.cli.watch_metrics import WatchState

        return self._state or WatchState()

    def run(self, clock: Callable[[], float], wait: Callable[[float], None]) -> None:
        """Look until the time is over. Raises StorageError; ClientError or PeerError if the first look fails that has to succeed."""
        options = self._options
        started = next_look = next_retention = clock()
        if options.is_service:
            self._look()
        else:
            self._watch.look()
        while True:
            self._display.look(self.name)
            if self._retention is not None and clock() >= next_retention:
                next_retention = clock() + RETENTION_INTERVAL_S
                self._retention.apply(_now_ms())
            next_look = max(next_look + self._pause_s(), clock())
            left = None if options.duration_s is None else started + options.duration_s - clock()
            wait_s = next_look - clock()
            if left is not None and left <= wait_s:
                wait(max(0.0, left))
                self._look()
                return
            wait(max(0.0, wait_s))
            self._look()

    def _pause_s(self) -> float:
        """The interval, and longer while the cluster does not respond."""
        interval_s = self._options.interval_s
        return max(interval_s, min(BACK_OFF_S_MAX, interval_s * 2 ** min(self._failures, 10))) if self._failures else interval_s

    def _look(self) -> None:
        problem = self._watch.try_look()
        self._failures = 0 if problem is None else self._failures + 1
        live = self._watch.live
        if live is None:
            return
        now_ms = _now_ms()
        facts = live.facts(self._watch.snapshots, now_ms) if problem is None else {}
        events = [] if self._alerts is None else self._events(now_ms, facts, problem)
        if self._options.metrics is not None:
            self._state = self._make_state(live, now_ms, facts, is_up=problem is None)
        if self._alerts is not None:
            self._alerts.pass_on(events)  # last: who gets an alert finds it in the metrics

    def _events(self, now_ms: int, facts: Mapping[str, GroupFacts], problem: str | None) -> list[AlertEvent]:
        assert self._alerts is not None, "the caller has looked"
        if problem is not None:
            return self._alerts.alerts.evaluate_unreachable(now_ms, problem)
        known = {group: None if group in self._watch.poller.failed else each for group, each in facts.items()}
        return self._alerts.alerts.evaluate(now_ms, dict.fromkeys(self._watch.poller.failed) | known)

    def _make_state(self, live: LiveHistory, now_ms: int, facts: Mapping[str, GroupFacts], *, is_up: bool) -> "WatchState":
        from ottla.cli.watch_metrics import GroupsOfWatch, WatchState, bounded_lag_ms, count_incidents

        state = self._state or WatchState()
        if is_up:
            if self._groups is None:
                self._groups = GroupsOfWatch(self.name or self._cluster_id())
            groups, ends = self._groups.sample(self._watch, facts, now_ms)
            state = replace(state, groups=groups, ends=ends, lag_ms=bounded_lag_ms(groups, live, now_ms))
        by_group, by_kind = count_incidents(live.open_incidents(now_ms), {row.group_id for row in state.groups.groups})
        return replace(
            state,
            incidents=by_group,
            incidents_by_kind=by_kind,
            summary=replace(self._watch.summary),
            is_up=is_up,
            archive_bytes=None if self._retention is None else self._retention.size_bytes,
            alerts={} if self._alerts is None else self._alerts.firing,
            deliveries=sum(
                (Counter({(each.action.way, name): n for name, n in each.outcomes.copy().items()}) for each in self._couriers), Counter()
            ),
        )

    def _cluster_id(self) -> str:
        try:
            return self._admin.describe_cluster(()).cluster_id
        except (ClientError, PeerError):
            return ""

    def _say(self, text: str) -> None:
        self._display.say(text, cluster=self.name)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
