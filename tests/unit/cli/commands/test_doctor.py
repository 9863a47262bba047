"""`ottla doctor`'s exit status and what it prints for machines."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.main import main


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
    assert run("--metrics", "127.0.0.1:1")[0] == 2
    status, text = run("--data", str(tmp_path))
    assert status == 2
    assert "no data directory" in text
