"""`ottla watch`: its run and its options."""

import io
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli import watch as run_module
from ottla.cli.commands.watch import RuleType
from ottla.cli.main import main
from ottla.cli.watch import Stopped, WatchOptions, run
from ottla.client.errors import BrokerUnavailableError
from ottla.history.alerts import parse_rule
from ottla.history.sources.archive import ArchiveWriter, FolderProblems, read_batches
from ottla.history.sources.archive_retention import parse_retention
from ottla.log.files import OsFiles
from ottla.metadata.topics import CONSUMER_OFFSETS
from ottla.protocol.errors import StorageError
from tests.support.kit.offsets_topic_records import commit
from tests.support.kit.scripted_cluster import ScriptedCluster


def test_the_options_of_the_command_line(monkeypatch: Any) -> None:
    given: list[WatchOptions] = []
    monkeypatch.setattr(run_module, "run", lambda options, **_: given.append(options) or 0)
    arguments = [
        "--bootstrap-server",
        "h:1",
        "--output",
        "a",
        "--group",
        "g",
        "--group",
        "h",
        "--interval",
        "2",
        "--duration",
        "3",
        "--json",
    ]
    assert CliRunner().invoke(main, ["watch", *arguments]).exit_code == 0
    assert CliRunner().invoke(main, ["watch", "--bootstrap-server", "h:1", "--output", "a"]).exit_code == 0
    assert given == [
        WatchOptions(bootstrap_servers=("h:1",), output="a", groups=("g", "h"), interval_s=2.0, duration_s=3.0, as_json=True),
        WatchOptions(bootstrap_servers=("h:1",), output="a"),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option '--bootstrap-server'"),
        (["--bootstrap-server", "h:1"], "Missing option '--output'"),
        (["--bootstrap-server", "h:1", "--output", "a", "--interval", "0"], "Invalid value for '--interval'"),
    ],
)
def test_what_is_missing_or_wrong(arguments: list[str], words: str) -> None:
    refused = CliRunner().invoke(main, ["watch", *arguments])
    assert refused.exit_code == 2
    assert words in refused.output


@pytest.fixture
def cluster() -> ScriptedCluster:
    """A cluster in memory, which is its own admin client and fetcher."""
    return ScriptedCluster()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closeable:
    """The cluster as a context manager, as AdminClient and Fetcher are."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __enter__(self) -> Any:
        return self._cluster

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def here(cluster: Any, monkeypatch: Any) -> None:
    """Connects every run to the cluster in memory, and passes time without waiting."""
    monkeypatch.setattr(run_module, "AdminClient", lambda *_: Closeable(cluster))
    monkeypatch.setattr(run_module, "Fetcher", lambda *_: Closeable(cluster))


class Time:
    """A clock that sleeping moves."""

    def __init__(self, monkeypatch: Any) -> None:
        self.now = 100.0
        monkeypatch.setattr(run_module.time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def watch(directory: Path, clock: Time, *, err: io.StringIO | None = None, **options: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), err or io.StringIO()
    options = {"bootstrap_servers": ["h:1"], "output": str(directory), "duration_s": 12.0, **options}
    status = run(WatchOptions(**options), out=out, err=err, clock=clock)
    return status, out.getvalue(), err.getvalue()


@pytest.mark.usefixtures("here")
def test_a_run_of_some_seconds(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    cluster.set_group("g", "m")
    status, out, err = watch(tmp_path / "a", Time(monkeypatch))
    assert (status, err) == (0, "")
    assert out.startswith("looks: 4, groups: 1, records: 0, bytes stored: ")
    assert out.endswith(f", in {tmp_path / 'a'}\n")


@pytest.mark.usefixtures("here")
def test_json_has_a_line_for_each_look_and_one_for_the_end(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    _, out, _ = watch(tmp_path / "a", Time(monkeypatch), as_json=True, interval_s=6.0)
    documents = [json.loads(line) for line in out.splitlines()]
    assert [(each["looks"], each["ended"]) for each in documents] == [(1, False), (2, False), (3, True)]


@pytest.mark.usefixtures("here")
def test_a_terminal_shows_progress(tmp_path: Path, monkeypatch: Any) -> None:
    _, _, err = watch(tmp_path / "a", Time(monkeypatch), err=Terminal())
    assert err.count("(Ctrl-C ends)") == 3  # a line for each look but the last, which the summary shows
    assert err.endswith("\r\x1b[K")


@pytest.mark.usefixtures("here")
def test_a_signal_ends_with_a_summary(tmp_path: Path, monkeypatch: Any) -> None:
    clock = Time(monkeypatch)

    def stop(_: float) -> None:
        raise Stopped

    monkeypatch.setattr(run_module.time, "sleep", stop)
    status, out, _ = watch(tmp_path / "a", clock)
    assert status == 0
    assert out.startswith("looks: 1, groups: 0")


@pytest.mark.usefixtures("here")
def test_progress_moves_within_a_look(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, 1))
    _, _, err = watch(tmp_path / "a", Time(monkeypatch), err=Terminal())
    assert "looks: 0, groups: 0, records: 1," in err


@pytest.mark.usefixtures("here")
def test_a_signal_in_the_first_look_ends_with_a_summary(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    def stop() -> None:
        raise Stopped

    monkeypatch.setattr(cluster, "list_groups", stop)
    status, out, _ = watch(tmp_path / "a", Time(monkeypatch))
    assert status == 0
    assert out.startswith("looks: 0, groups: 0")


@pytest.mark.usefixtures("here")
def test_a_disk_that_is_full_ends_the_run(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    lines: list[int] = []

    def append(_: Any, data: Any) -> int:
        lines.append(len(data))
        if len(lines) > 1:
            raise StorageError("cannot write to snapshots: the disk is full")
        return 0

    monkeypatch.setattr(ArchiveWriter, "append_lines", append)
    status, out, err = watch(tmp_path / "a", Time(monkeypatch))
    assert (status, err) == (1, "Error: cannot write to snapshots: the disk is full\n")
    assert out.startswith("looks: 1, ")


@pytest.mark.usefixtures("here")
def test_a_cluster_that_does_not_answer_at_the_start(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    def fail() -> None:
        raise BrokerUnavailableError("no broker answers")

    monkeypatch.setattr(cluster, "list_groups", fail)
    assert watch(tmp_path / "a", Time(monkeypatch)) == (1, "", "Error: no broker answers\n")


def test_what_is_wrong_with_the_command_line(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "other").touch()
    clock = Time(monkeypatch)
    status, _, err = watch(tmp_path / "a", clock, bootstrap_servers=["nowhere"])
    assert (status, err) == (1, "Error: --bootstrap-server: 'nowhere' is no host:port\n")
    status, _, err = watch(tmp_path, clock)
    assert status == 1
    assert "the directory holds other things (other)" in err
    status, _, err = watch(tmp_path / "a", clock, command_configs=[str(tmp_path / "missing")])
    assert status == 1
    assert "missing" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alert", "lag"], "is no rule: write"),
        (["--alert", "incident", "--webhook", "nowhere"], "--webhook: 'nowhere' is no URL"),
        (["--alert", "incident", "--exec", " "], "--exec: a command is missing"),
        (["--exec", "true"], "need a rule"),
        (["--metrics", "9405"], "cannot listen on '9405'"),
        (["--retention", "soon"], "no length of time"),
    ],
)
def test_options_of_metrics_and_alerts_that_are_wrong(arguments: list[str], words: str) -> None:
    refused = CliRunner().invoke(main, ["watch", "--bootstrap-server", "h:1", "--output", "a", *arguments])
    assert (refused.exit_code, "Traceback" in refused.output) == (2, False)
    assert words in refused.output


@pytest.mark.usefixtures("here")
def test_a_cluster_that_does_not_respond_is_tried_again_with_a_back_off(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    clock, times = Time(monkeypatch), []

    def fail() -> None:
        times.append(round(clock.now - 100))
        raise BrokerUnavailableError("no broker answers")

    monkeypatch.setattr(cluster, "list_groups", fail)
    rules = [parse_rule("unreachable")]
    status, out, err = watch(tmp_path / "a", clock, rules=rules, interval_s=2.0, duration_s=40.0)
    assert (status, times) == (0, [0, 4, 12, 22, 32, 40])
    assert err == "no broker answers; it is tried again at the next look\nAlert firing (unreachable): no broker answers\n"
    assert out.startswith("looks: 0, ")
    monkeypatch.undo()


@pytest.mark.usefixtures("here")
def test_several_clusters(cluster: Any, tmp_path: Path) -> None:
    cluster.set_group("g", "m")
    out, err = io.StringIO(), io.StringIO()
    options = WatchOptions(bootstrap_servers=["east=h:1", "west=h:2"], output=str(tmp_path), duration_s=0.05, interval_s=0.02, as_json=True)
    assert run(options, out=out, err=err) == 0
    assert err.getvalue() == ""
    ended = [each for each in map(json.loads, out.getvalue().splitlines()) if each["ended"]]
    assert [(each["cluster"], each["groups"], each["looks"] > 1) for each in ended] == [("east", 1, True), ("west", 1, True)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["east", "west"]
    assert (tmp_path / "west" / "archive.json").exists()


@pytest.mark.usefixtures("here")
def test_a_retention_is_applied_while_it_runs(cluster: Any, tmp_path: Path, monkeypatch: Any) -> None:
    for offset in (5, 6, 7):
        cluster.add(CONSUMER_OFFSETS, 0, commit("g", 0, offset))  # of 1970
    status, _, err = watch(tmp_path / "a", Time(monkeypatch), retention=parse_retention(["7d"]))
    assert (status, err) == (0, "")
    (batch,) = read_batches(OsFiles(tmp_path / "a"), f"{CONSUMER_OFFSETS}-0", FolderProblems())
    assert batch.header.base_offset == 2


def test_several_clusters_need_names(tmp_path: Path) -> None:
    for servers in (["h:1", "h:2"], ["a=h:1", "a=h:2"], ["a=h:1", "h:2"]):
        out, err = io.StringIO(), io.StringIO()
        assert run(WatchOptions(bootstrap_servers=servers, output=str(tmp_path)), out=out, err=err) == 1
        assert "a name of its own, as in east=host:9092" in err.getvalue()


@pytest.mark.usefixtures("here")
def test_a_disk_that_is_full_ends_all_clusters(tmp_path: Path, monkeypatch: Any) -> None:
    def fail(*_: Any) -> int:
        raise StorageError("cannot write to snapshots: the disk is full")

    monkeypatch.setattr(ArchiveWriter, "append_lines", fail)
    out, err = io.StringIO(), io.StringIO()
    assert run(WatchOptions(bootstrap_servers=["east=h:1", "west=h:2"], output=str(tmp_path), duration_s=60), out=out, err=err) == 1
    assert err.getvalue() == "Error: cannot write to snapshots: the disk is full\n"


@pytest.mark.usefixtures("here")
def test_an_address_that_is_taken_and_a_directory_that_is_a_file(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        out, err = io.StringIO(), io.StringIO()
        options = WatchOptions(bootstrap_servers=["h:1"], output=str(tmp_path / "a"), metrics=taken.getsockname())
        assert run(options, out=out, err=err) == 1
    assert err.getvalue() == f"Error: --metrics: cannot listen on 127.0.0.1:{taken_port(err)}: Address already in use\n"
    (tmp_path / "file").touch()
    out, err = io.StringIO(), io.StringIO()
    assert run(WatchOptions(bootstrap_servers=["h:1"], output=str(tmp_path / "file" / "a")), out=out, err=err) == 1
    assert err.getvalue().startswith("Error: cannot make ")


def taken_port(err: io.StringIO) -> str:
    return err.getvalue().partition("127.0.0.1:")[2].partition(":")[0]


def test_rules_are_completed() -> None:
    words = [item.value for item in RuleType().shell_complete(None, None, "incident l")]  # type: ignore[arg-type]
    assert words == ["incident lost member"]
