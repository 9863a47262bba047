"""A migration in a Spark session that is none: what is printed when it fails, and that the session is stopped."""

import logging
import signal
from typing import Any

import click
import pytest
from py4j.protocol import Py4JNetworkError

from ottla.cli.migrate.clusters import cluster
from ottla.cli.migrate.run import Order, execute, progress_bar
from ottla.client.errors import ClientError
from ottla.spark import sessions
from ottla.spark.migration.values import Migration, MigrationError, Progress


class Session:
    """A Spark session that only counts how often it was stopped."""

    stopped = 0
    log_level = ""

    @property
    def sparkContext(self) -> "Session":
        return self

    def setLogLevel(self, level: str) -> None:
        self.log_level = level

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Session:
    found = Session()
    monkeypatch.setattr(sessions, "session", lambda *_arguments, **_options: found)
    return found


@pytest.fixture
def order() -> Order:
    here = cluster("h:1", None, option="--bootstrap-server")
    planned = Migration(source_cluster=here, target_cluster=here, source="wide", target="narrow")
    return Order(migration=planned, cores="1", what="migrating")


class SparkError(Exception):
    """As Spark reports what a worker raised."""


def fail(error: BaseException) -> Any:
    def work(_run: Any) -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MigrationError("topic wide does not exist"), "topic wide does not exist"),
        (ClientError("no broker answers"), "no broker answers"),
        (KeyboardInterrupt(), "interrupted: run the same command again, it continues"),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark's Java process has ended: run the same command again, it continues"),
        (SparkError("Job aborted\nottla.spark.migration.values.MigrationError: cannot write\n at x"), "cannot write"),
    ],
)
def test_a_failure_is_one_sentence(order: Order, spark: Session, error: BaseException, words: str) -> None:
    with pytest.raises(click.ClickException) as raised:
        execute(order, fail(error))
    assert (raised.value.message, spark.stopped) == (words, 1)


def test_any_other_failure_is_not_hidden(order: Order, spark: Session) -> None:
    with pytest.raises(SparkError):
        execute(order, fail(SparkError("out of memory")))


def test_the_result_is_that_of_the_work(order: Order, spark: Session) -> None:
    assert execute(order, lambda _run: 5) == 5
    assert spark.stopped == 1


def test_the_bar_shows_progress_and_what_it_waits_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with progress_bar("migrating wide") as report:
        report(Progress(0, 0))
        report(Progress(50, 100, "the source to stand still"))
    assert "migrating wide, waits for the source to stand still" in capsys.readouterr().err


def test_what_groups_read_again_is_printed_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("migrating wide") as report:
        for replay in (None, {}, {"a": 0, "b\n": 7}, {"a": 0, "b\n": 7}, {"a": 1}):
            report(Progress(5, 5, "the members of a to stop", replay))
    first, second = capsys.readouterr().err.strip().splitlines()
    words = "all is copied, waits for the members of a to stop; if groups continued in the new topic now, they would read records again:"
    assert (first, second) == (f"{words} a 0, b\\n 7", f"{words} a 1")


def test_ctrl_c_is_one_sentence_and_nothing_logs_it(order: Order, spark: Session, caplog: pytest.LogCaptureFixture) -> None:
    before = signal.getsignal(signal.SIGINT)

    def work(_run: Any) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            logging.getLogger().exception("as Py4J does")
            raise

    with pytest.raises(click.ClickException, match="interrupted: run the same command again"):
        execute(order, work)
    assert (spark.log_level, spark.stopped, caplog.records) == ("OFF", 1, [])
    assert signal.getsignal(signal.SIGINT) is before
    assert logging.getLogger().isEnabledFor(logging.ERROR)
