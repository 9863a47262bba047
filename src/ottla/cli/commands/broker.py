"""`ottla broker`: runs a broker in the foreground until SIGTERM or SIGINT."""

import asyncio
import gc
import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.broker import QueuedHandler, read_verbs
from ottla.cli.options import SettingType

if TYPE_CHECKING:
    from ottla.broker.running_brokers import BrokerTask

ALLOCATIONS_PER_COLLECTION = 50_000
LISTEN = "127.0.0.1:9092"
AT_START = "the broker cannot start"
AT_STOP = "the broker stopped, but not cleanly"

SWITCH_INTERVAL_S = 0.0005
"""How long another thread (the cleaner, a load) may keep the interpreter from the loop that answers; Python's own 5 ms are many answers."""


@click.command("broker", short_help="Run one or several Kafka brokers in this process.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Address for clients; port 0 takes any free one; {LISTEN} unless the setting listeners names addresses.",
)
@click.option(
    "--listener",
    "listeners",
    multiple=True,
    metavar="NAME://HOST:PORT",
    help="Instead of --listen: a listener by its name, whose protocol listener.security.protocol.map says; may be repeated.",
)
@click.option(
    "--add-scram",
    "scram_users",
    multiple=True,
    metavar="WORDS",
    help="A user from the first start on: 'SCRAM-SHA-256=[name=alice,password=secret]'; @FILE reads them from a file; may be repeated.",
)
@click.option("--data", type=click.Path(file_okay=False), metavar="DIR", help="Keep the data here; without it, in memory.")
@click.option(
    "--config",
    "settings",
    multiple=True,
    type=SettingType("num.partitions=3"),
    metavar="K=V",
    help="A broker setting by its Kafka name; may be repeated.",
)
@click.option(
    "--brokers", default=1, show_default=True, metavar="N", help="Number of brokers, each on the next port; all share the storage."
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics (Prometheus) and /health there; port 0 takes any free one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
@click.option("--audit-log", metavar="FILE", help="Write there what the authorizer decides, what it allows too (`ottla docs acls`).")
@click.option("-v", "--verbose", is_flag=True, help="Log INFO messages, not only warnings and errors.")
def command(
    listen: str | None,
    listeners: tuple[str, ...],
    scram_users: tuple[str, ...],
    data: str | None,
    settings: tuple[tuple[str, str], ...],
    brokers: int,
    metrics: str | None,
    as_json: bool,
    audit_log: str | None,
    verbose: bool,
) -> None:
    """Run one or several Kafka brokers in this process.

    When it is ready, it prints one line to stdout, `bootstrap.servers=HOST:PORT`, and with --metrics before it `metrics=URL`; logs go to
    stderr; if stderr is not read, lines are dropped and counted. The broker stops cleanly on SIGTERM and SIGINT with exit status 0; the
    status is 1 if it cannot start, or cannot stop cleanly.

    With --brokers it reads commands from stdin, one per line: `stop 2`, `start 2`, `add`, `move-leader TOPIC PARTITION BROKER`,
    `move-coordinator GROUP BROKER`, `coordinator GROUP`; for each it prints one line to stdout that starts with `ok` or `error`.
    """
    config = dict(settings)
    with _failures(AT_START):
        handler = QueuedHandler()
    level = logging.INFO if verbose else logging.WARNING
    handler.setLevel(level)  # lines for --audit-log pass the level of the root logger
    logging.basicConfig(handlers=[handler], level=level, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    if audit_log is not None:
        _write_audit_lines(audit_log)
    try:
        _serve(listen, listeners, scram_users, data, config, brokers, metrics, as_json=as_json)
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _write_audit_lines(path: str) -> None:
    with _failures(AT_START):
        Path(path).touch(mode=0o600)  # names of clients and topics are not for everybody
        lines = logging.FileHandler(path, encoding="utf-8")
    lines.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    audit = logging.getLogger("kafka.authorizer.logger")
    audit.addHandler(lines)
    audit.setLevel(logging.DEBUG)


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """End the command with one line for an expected error, without a traceback: `what` failed, and why."""
    from ottla.broker.embedded import is_no_thread, no_thread
    from ottla.config import ConfigError
    from ottla.protocol.errors import StorageError

    try:
        yield
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    except (StorageError, OSError) as error:
        raise click.ClickException(f"{what}: {error}") from error
    except RuntimeError as error:
        if not is_no_thread(error):
            raise
        raise click.ClickException(f"{what}: {no_thread(error)}") from error


def _serve(
    listen: str | None,
    listeners: tuple[str, ...],
    scram_users: tuple[str, ...],
    data: str | None,
    config: dict[str, str],
    brokers: int,
    metrics: str | None,
    *,
    as_json: bool,
) -> None:
    from ottla.broker.network.limits import raise_limit
    from ottla.broker.running_brokers import BrokerTask, new_event_loop, with_listeners

    with _failures(AT_START):
        raise_limit()
        settings = with_listeners(config, listeners) or {}
        if listen is None and "listeners" not in settings:
            listen = LISTEN
        users = [Path(words[1:]).read_text() if words.startswith("@") else words for words in scram_users]
        task = BrokerTask(data, settings, listen, metrics=metrics, brokers=brokers, scram_users=users)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_until_signal(task, takes_verbs=brokers > 1, as_json=as_json))
    finally:
        if not loop.is_running():  # uvloop leaves it so when it finds no descriptor to begin with
            loop.close()


async def _until_signal(task: "BrokerTask", *, takes_verbs: bool, as_json: bool) -> None:
    """Start, print the address, and stop on a signal: all in one run of the loop, since a loop that does not run handles no signal."""
    with _failures(AT_START):
        await task.start()
    _collect_rarely()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    _print_ready(task, as_json=as_json)
    if takes_verbs:
        read_verbs(task, sys.__stdin__.fileno() if sys.__stdin__ else -1, as_json=as_json)
    await stopped.wait()
    with _failures(AT_STOP):
        await task.stop()


def _print_ready(task: "BrokerTask", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"bootstrap_servers": task.bootstrap_servers, "metrics": task.metrics_url}), flush=True)
        return
    if task.metrics_url is not None:
        print(f"metrics={task.metrics_url}")
    print(f"bootstrap.servers={task.bootstrap_servers}", flush=True)


def _collect_rarely() -> None:
    """Collect garbage rarely: what is loaded by now stays, and requests leave no reference cycles.

    A group of a thousand that rejoins would otherwise spend a fifth of its time on that. An embedded broker leaves it to its process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_PER_COLLECTION, 10, 10)


COMMAND = command
