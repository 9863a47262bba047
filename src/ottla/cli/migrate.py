"""`ottla migrate`: runs a migration in Spark, with a progress bar on the standard error, and shows its plan and results."""

import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from ottla.cli.groups.resetting import write_plan
from ottla.protocol.model import TopicPartition
from ottla.text import printable

if TYPE_CHECKING:
    from ottla.spark.migration.job import Migrated, MigrationRun
    from ottla.spark.migration.values import Cluster, Migration, Progress, Report


PRODUCER_NAMES: Final = ("batch.size", "buffer.memory", "compression.type", "delivery.timeout.ms", "linger.ms")
"""The properties of a file that are for the producer, besides security and client.id."""
_DEFAULTS: Final = {
    "client.id": "ottla-migrate",
    "linger.ms": "20",
    # A record that just fits into the source gets a header more; the target takes as much while it is filled.
    "max.request.size": "104857600",
    "buffer.memory": "134217728",
}


def cluster(bootstrap_server: str, path: str | None, *, option: str) -> "Cluster":
    """How to reach a cluster. `option`: the one with the addresses. Raises click.ClickException with a sentence."""
    from ottla.cli.clusters import CommandFailed, read_client_properties
    from ottla.client.addresses import parse_addresses
    from ottla.client.settings import parse_client_settings
    from ottla.spark.migration.values import Cluster
    from ottla.spark.options.values import OptionError
    from ottla.spark.sink.producer_settings import parse_producer_settings

    try:
        parse_addresses(bootstrap_server)
    except ValueError as error:
        raise click.BadParameter(f"{error}: write for example 127.0.0.1:9092", param_hint=option) from error
    try:
        given = read_client_properties(path, *PRODUCER_NAMES) if path is not None else {}
        addresses = {"bootstrap.servers": bootstrap_server}
        reading = {name: value for name, value in given.items() if name not in PRODUCER_NAMES}
        writing = {name: value for name, value in given.items() if _is_for_producers(name)}
        client = parse_client_settings({"client.id": _DEFAULTS["client.id"]} | reading | addresses)
        return Cluster(client=client, producer=parse_producer_settings(_DEFAULTS | writing | addresses))
    except CommandFailed as error:
        raise click.ClickException(str(error)) from error
    except (ValueError, OptionError) as error:
        raise click.ClickException(f"{path}: {error}") from error


def _is_for_producers(name: str) -> bool:
    from ottla.config.client_properties import is_security

    return name in PRODUCER_NAMES or name == "client.id" or is_security(name)


def summary(source: str, target: str, migrated: "Migrated", *, is_forecast: bool) -> str:
    """What was copied, or would be, and for each group how many records it reads again, and its offset in each partition of the target."""
    copied, reads = ("would be copied", "would read") if is_forecast else ("copied", "reads")
    groups = [
        f"group {printable(group)} {reads} {carried.replayed} records again, from "
        + ", ".join(f"{partition}:{offset}" for partition, offset in sorted(carried.offsets.items()))
        for group, carried in migrated.groups.items()
    ]
    gone = [f"{migrated.gone} records of {target} are from an earlier run, and {source} no longer has them"] if migrated.gone else []
    return "\n".join([f"{migrated.records} records {copied} from {source} to {target}", *gone, *groups])


def document(source: str, target: str, migrated: "Migrated", *, is_forecast: bool) -> dict[str, Any]:
    """The same for --json; "replay" is the number of records that a group reads again."""
    groups = {
        group: {"replay": carried.replayed, "offsets": {str(partition): offset for partition, offset in sorted(carried.offsets.items())}}
        for group, carried in migrated.groups.items()
    }
    return {
        "source": source,
        "target": target,
        "dry_run": is_forecast,
        "records": migrated.records,
        "gone": migrated.gone,
        "groups": groups,
    }


def plan(target: str, migrated: "Migrated") -> str:
    """The groups' offsets as CSV, for --from-file of `ottla groups --reset-offsets` and kafka-consumer-groups."""
    offsets = {
        group: {TopicPartition(target, partition): offset for partition, offset in sorted(carried.offsets.items())}
        for group, carried in migrated.groups.items()
    }
    return write_plan(offsets, with_group=True)


T = TypeVar("T")
JAVA_ENDED = "Spark's Java process has ended: run the same command again, it continues"
INTERRUPTED = "interrupted: run the same command again, it continues"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOrder:
    """What to do: the migration, the cores of this machine for it, and the words beside the progress bar."""

    migration: "Migration"
    cores: str
    what: str


def execute(order: MigrationOrder, work: "Callable[[MigrationRun], T]") -> T:
    """The result of `work` with a run in a new session, which is stopped again. Raises click.ClickException with a sentence."""
    from py4j.protocol import Py4JError, Py4JJavaError

    from ottla.cli.pipeline import java_output, own_sentence
    from ottla.client.errors import ClientError
    from ottla.spark.migration.job import MigrationRun
    from ottla.spark.migration.values import MigrationError, Progress
    from ottla.spark.sessions import OWN_QUERIES, SessionError, session

    try:
        with java_output() as stderr, progress_bar(order.what) as report:
            report(Progress(0, 0, doing="Spark starts"))
            spark = session("ottla-migrate", master=f"local[{order.cores},1]", settings=OWN_QUERIES, stderr=stderr)
            # Java would print what is raised here, too, and each task that it gives up.
            spark.sparkContext.setLogLevel("OFF")
            with _quiet_interrupts():
                try:
                    return work(MigrationRun(spark, order.migration, report=report))
                finally:
                    spark.stop()
    except KeyboardInterrupt as error:
        raise click.ClickException(INTERRUPTED) from error
    except (ClientError, MigrationError, SessionError) as error:
        raise click.ClickException(str(error)) from error
    except Exception as error:
        is_connection = isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)
        sentence = JAVA_ENDED if is_connection else own_sentence(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from error


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, and Py4J does not print where. PySpark's own handler calls Java in the middle of another call."""

    def interrupt(_signal: int, _frame: object) -> None:
        logging.disable(logging.CRITICAL)  # Py4J prints it as an error
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


class RateColumn(ProgressColumn):
    """Records per second."""

    def render(self, task: Task) -> Text:
        """The rate of the last half minute; nothing before the first batch."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} records/s" if speed else "")


@contextmanager
def progress_bar(what: str) -> "Iterator[Report]":
    """A bar with the share of the records that were read, records per second and the time that is left; elsewhere than on a terminal a line
    for each step, and for each tenth of the records."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), RateColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        printed: Mapping[str, int] | None = None
        doing = ""
        tenths = -1

        def report(progress: "Progress") -> None:
            nonlocal printed, doing, tenths
            waits = f", waits for {progress.waits_for}" if progress.waits_for else ""
            if progress.doing != doing and progress.doing and not bar.console.is_terminal:
                click.echo(f"{what}: {progress.doing}", err=True)
            doing = progress.doing
            if progress.total and not doing and progress.done * 10 // progress.total > tenths and not bar.console.is_terminal:
                tenths = progress.done * 10 // progress.total
                click.echo(f"{what}: {10 * tenths} % of {progress.total} offsets", err=True)
            bar.update(
                task,
                description=f"{what}{waits}" if not doing else f"{what}: {doing}",
                completed=progress.done,
                total=progress.total or None,
            )
            if progress.replay and progress.replay != printed:
                printed = progress.replay
                again = ", ".join(f"{printable(group)} {count}" for group, count in printed.items())
                click.echo(
                    f"all is copied{waits}; if groups continued in the new topic now, they would read records again: {again}", err=True
                )

        yield report
