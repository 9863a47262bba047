"""`ottla doctor`: the report of a broker or a directory, as text and as JSON."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from ottla.broker import Broker
from ottla.broker.monitoring.metrics_server import HttpResponse, MetricsServer
from ottla.cli.doctor import TOPICS_MAX, HealthUnknownError, ask_broker, inspect_directory, show
from ottla.cli.main import main
from ottla.log.checkpoints import encode_offsets
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def test_a_healthy_broker() -> None:
    with Broker(metrics="127.0.0.1:0") as broker:
        assert broker.metrics_url is not None
        status, text = run("--metrics", broker.metrics_url)
        assert (status, text.split(":")[0]) == (0, "Healthy")
        status, text = run("--metrics", broker.metrics_url, "--json")
        assert (status, json.loads(text)["cleaner"]["state"]) == (0, "running")


def test_a_healthy_directory(tmp_path: Path) -> None:
    with Broker(tmp_path / "data"):
        status, text = run("--data", str(tmp_path / "data"))
        assert (status, text.split(":")[0]) == (0, "Healthy")
    status, text = run("--data", str(tmp_path / "data"), "--json")
    assert status == 0
    assert json.loads(text)["healthy"] is True


def test_an_unhealthy_directory(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("damaged")
    status, text = run("--data", str(tmp_path))
    assert status == 1
    assert "✗ cleaner-offset-checkpoint is damaged" in text


@pytest.mark.parametrize("arguments", [(), ("--metrics", "127.0.0.1:1", "--data", ".")])
def test_one_thing_to_look_at(arguments: tuple[str, ...]) -> None:
    status, text = run(*arguments)
    assert status == 2
    assert "--metrics HOST:PORT" in text


def test_it_cannot_tell(tmp_path: Path) -> None:
    status, text = run("--metrics", "127.0.0.1:1")
    assert status == 2
    assert "does not answer: Connection refused. Is the broker running?" in text
    status, text = run("--data", str(tmp_path))
    assert status == 2
    assert "no data directory" in text


HOUR = 3_600_000
T0 = 1_700_000_000_000


def topic(name: str, **changed: Any) -> dict[str, Any]:
    facts = {
        "name": name,
        "partitions": 1,
        "is_compacted": True,
        "size_bytes": 200_000_000,
        "dirty_bytes": 150_000_000,
        "cleanable_bytes": 140_000_000,
        "dirty_ratio": 0.7,
        "overdue_ms": 0,
        "growth_bytes_per_hour": 120_000_000,
    }
    return facts | changed


def report(*topics: dict[str, Any], healthy: bool = True, findings: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"healthy": healthy, "findings": list(findings), "topics": list(topics)}


def printed(seen: dict[str, Any], *, show_all: bool = False, width: int = 80) -> str:
    out = io.StringIO()
    show(seen, Console(file=out, width=width), show_all=show_all)
    return out.getvalue()


@pytest.fixture
def served() -> Iterator[tuple[str, list[HttpResponse]]]:
    answers = [HttpResponse(200, "application/json", json.dumps(report(topic("a"))).encode())]
    server = MetricsServer("127.0.0.1", 0, {"/health": lambda: answers[-1]})
    yield f"127.0.0.1:{server.port}", answers
    server.close()


def test_a_running_broker_is_asked(served: tuple[str, list[HttpResponse]]) -> None:
    address, answers = served
    for form in (address, f"http://{address}", f"http://{address}/metrics", f"http://{address}/health/"):
        assert ask_broker(form)["topics"][0]["name"] == "a"
    answers.append(HttpResponse(503, "application/json", json.dumps(report(healthy=False)).encode()))
    assert ask_broker(address)["healthy"] is False


@pytest.mark.parametrize("body", [b"hello", b"[]", b"{}", b"\xff"])
def test_what_is_no_broker_is_said(served: tuple[str, list[HttpResponse]], body: bytes) -> None:
    address, answers = served
    answers.append(HttpResponse(200, "text/plain", body))
    with pytest.raises(HealthUnknownError, match="answers with"):
        ask_broker(address)


def test_no_broker_there() -> None:
    with pytest.raises(HealthUnknownError, match=r"does not answer: Connection refused\. Is the broker running\? .*--metrics HOST:PORT"):
        ask_broker("127.0.0.1:1")
    for address in ("what is this", "127.0.0.1:port"):
        with pytest.raises(HealthUnknownError, match=f"^{address} is no address: write HOST:PORT"):
            ask_broker(address)


def test_another_http_server(served: tuple[str, list[HttpResponse]]) -> None:
    address, answers = served
    answers.append(HttpResponse(500, "text/plain", b""))
    with pytest.raises(HealthUnknownError, match="500"):
        ask_broker(address)


def write_segment(directory: Path, base: int, *times_ms: int) -> None:
    directory.mkdir(exist_ok=True)
    batches = [bytes(encode_batch([Record(base + at, ms, b"k", bytes(1000))], base_offset=base + at)) for at, ms in enumerate(times_ms)]
    for suffix, data in ((".log", b"".join(batches)), (".index", b""), (".timeindex", b"")):
        (directory / f"{base:020d}{suffix}").write_bytes(data)


def test_a_directory_where_the_cleaner_is_missing(tmp_path: Path) -> None:
    for base, time_ms in ((0, T0), (2, T0 + HOUR), (4, T0 + 3 * HOUR)):
        write_segment(tmp_path / "__consumer_offsets-7", base, time_ms, time_ms + 1000)
    (tmp_path / "cleaner-offset-checkpoint").write_bytes(encode_offsets({TopicPartition("__consumer_offsets", 7): 2}))
    seen = inspect_directory(tmp_path)
    assert seen["healthy"] is True, "half of it is dirty: not more than min.cleanable.dirty.ratio"
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    seen = inspect_directory(tmp_path)
    assert seen["healthy"] is False
    (unhealthy,) = [finding for finding in seen["findings"] if finding["is_ill"]]
    assert unhealthy["subject"] == "topic __consumer_offsets"
    assert "was not cleaned for 2 h" in unhealthy["sentence"]
    (partition,) = seen["partitions"]
    assert (partition["topic"], partition["partition"], partition["segments"], partition["cleaned_to"]) == (
        "__consumer_offsets",
        7,
        3,
        None,
    )
    json.dumps(seen)


def test_no_data_directory(tmp_path: Path) -> None:
    with pytest.raises(HealthUnknownError, match="no data directory"):
        inspect_directory(tmp_path)


def test_a_table_that_fits_a_terminal() -> None:
    text = printed(report(topic("__consumer_offsets"), topic("a.very.long.name.of.a.topic.that.is.too.long" * 3)))
    assert max(map(len, text.splitlines())) <= 80
    row = next(line for line in text.splitlines() if line.startswith("__consumer_offsets"))
    assert row.split() == ["__consumer_offsets", "1", "200", "MB", "150", "MB", "0.70", "+120", "MB", "clean", "enough"]


def test_it_says_what_it_inspected_and_what_not() -> None:
    verdict, groups, *_ = printed(report(topic("a", partitions=3), topic("b")), width=200).splitlines()
    assert verdict == "Healthy: the log cleaner and the logs of 2 topics (4 partitions)."
    assert groups == "Consumer groups were not inspected: `ottla groups --describe --all-groups`, `ottla diagnose`."
    assert printed(report(topic("a")), width=200).startswith("Healthy: the log cleaner and the logs of 1 topic (1 partition).\n")
    many = report(topic("a", partitions=3)) | {"topics_left_out": 7, "healthy": False}
    assert printed(many, width=200).startswith("Unhealthy: the log cleaner and the logs of 8 topics (3 or more partitions).\n")


def test_unhealthy_things_come_with_what_to_do() -> None:
    unhealthy = {"subject": "topic t", "is_ill": True, "sentence": "t holds too much.", "advice": "Look at [bold]the disk."}
    well = {"subject": "topic u", "is_ill": False, "sentence": "u is fine.", "advice": ""}
    text = printed(report(topic("t", overdue_ms=2 * HOUR), healthy=False, findings=(unhealthy, well)), width=200)
    assert text.startswith("Unhealthy: ")
    assert text.splitlines()[2:4] == ["✗ t holds too much.", "  → Look at [bold]the disk."]
    assert "u is fine" not in text, "its row says so"
    assert "behind for 2 h" in text


def test_only_what_is_of_interest_is_listed() -> None:
    quiet = topic("quiet", is_compacted=False, growth_bytes_per_hour=10)
    growing = topic("growing", is_compacted=False, growth_bytes_per_hour=5_000_000)
    unknown = topic("unknown", is_compacted=False, growth_bytes_per_hour=None)
    text = printed(report(quiet, growing, unknown))
    assert "growing" in text
    assert "quiet" not in text
    assert "2 more topics" in text
    everything = printed(report(quiet, growing, unknown), show_all=True)
    assert "quiet" in everything
    assert "more topics" not in everything
    many = printed(report(*(topic(f"t{number}") for number in range(TOPICS_MAX + 9))))
    assert "9 more topics" in many
