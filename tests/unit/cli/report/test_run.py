from datetime import UTC
from pathlib import Path

import click
import pytest

from ottla.cli.diagnose.gathering import SourceOptions
from ottla.cli.report.run import ReportOptions, run
from ottla.core.diagnosis.story.stories import StoryOptions

LINES = """\
[2026-11-22 14:31:00,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] Preparing to rebalance group orders in state \
PreparingRebalance with old generation 4 (reason: removing member w1-6b0e1c1e-6f6c-4a39-9d2a-1c1f7f6c2a11 on heartbeat expiration.). \
(org.apache.kafka.coordinator.group.GroupMetadataManager)
[2026-11-22 14:31:01,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] Stabilized group orders generation 5 with 2 \
members. (org.apache.kafka.coordinator.group.GroupMetadataManager)
"""


def options(tmp_path: Path, *logs: str, lag: Path | None = None, groups: tuple[str, ...] = ()) -> ReportOptions:
    return ReportOptions(
        sources=SourceOptions(broker_logs=logs, groups=groups),
        stories=StoryOptions(groups=groups),
        lag_history=lag,
        output=str(tmp_path / "out.html"),
        output_format="html",
    )


def test_a_brokers_log_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "server.log"
    log.write_text(LINES)
    run(options(tmp_path, str(log)), zone=UTC)
    page = (tmp_path / "out.html").read_text()
    assert "EXPIRE_HEARTBEAT" in page
    assert "server.log" in page
    assert "sent no heartbeat" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("logs", "lag", "groups", "sentence"),
    [
        ((), None, (), "nothing to read"),
        (("missing.log",), None, (), "no such file"),
        (("server.log",), "missing", (), "is no table lag_history"),
        (("server.log",), None, ("zzz",), "no evidence of zzz was found"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    tmp_path: Path, logs: tuple[str, ...], lag: str | None, groups: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "server.log").write_text(LINES)
    given = options(tmp_path, *(str(tmp_path / log) for log in logs), lag=lag and tmp_path / lag, groups=groups)
    with pytest.raises(click.ClickException, match=sentence):
        run(given, zone=UTC)
