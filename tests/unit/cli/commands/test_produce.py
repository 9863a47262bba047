"""Tests of the command line of `ottla produce`."""

from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.cli.produce import run as run_module
from ottla.cli.produce.properties import Target
from ottla.cli.produce.records import LineFormat
from ottla.cli.produce.run import ProduceOptions

REQUIRED = ["--bootstrap-server", "h:1", "--topic", "t"]


@pytest.fixture
def given(monkeypatch: Any) -> list[tuple[ProduceOptions, list[bytes]]]:
    """The options and lines of each run."""
    found: list[tuple[ProduceOptions, list[bytes]]] = []
    monkeypatch.setattr(run_module, "run", lambda options, lines, **_: found.append((options, list(lines))) or 0)
    return found


def test_the_options_of_the_command_line(given: list[tuple[ProduceOptions, list[bytes]]], tmp_path: Any) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"k:v\n")
    more = ["--key-delimiter", ":", "--null", "-", "--header", "a=1", "--header", "b=2=3", "--partition", "4", "--compression", "zstd"]
    more += ["--timeout", "2", "--config", "linger.ms=5", "--command-config", "f", str(file)]
    assert CliRunner().invoke(main, ["produce", *REQUIRED, *more]).exit_code == 0
    assert CliRunner().invoke(main, ["produce", *REQUIRED, "--json"], input=b"{}\n{}").exit_code == 0
    target = Target(bootstrap_server="h:1", timeout_s=2.0, compression="zstd", command_config="f", config=(("linger.ms", "5"),))
    form = LineFormat(key_delimiter=b":", null=b"-", headers=[("a", b"1"), ("b", b"2=3")])
    assert given == [
        (ProduceOptions(target=target, topic="t", form=form, partition=4), [b"k:v\n"]),
        (
            ProduceOptions(target=Target(bootstrap_server="h:1", config=()), topic="t", form=LineFormat(is_json=True, headers=[])),
            [b"{}\n", b"{}"],
        ),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option"),
        ([*REQUIRED, "--key-delimiter", ""], "it must not be empty"),
        ([*REQUIRED, "--json", "--null", "x"], "--json says itself what is a key"),
        ([*REQUIRED, "--header", "x"], "write a setting as NAME=VALUE"),
        ([*REQUIRED, "--timeout", "0"], "--timeout"),
        ([*REQUIRED, "/no/such/file"], "No such file"),
    ],
)
def test_what_is_missing_or_wrong(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["produce", *arguments])
    assert result.exit_code == 2
    assert words in result.output


def test_without_confluent_kafka_a_sentence_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setattr("ottla.core.extras.find_spec", lambda name: None if name == "confluent_kafka" else object())
    result = CliRunner().invoke(main, ["produce", *REQUIRED])
    assert result.exit_code == 1
    assert result.output == 'Error: confluent_kafka is not installed: pip install "ottla[spark]"\n'
