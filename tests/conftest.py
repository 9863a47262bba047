"""What every test may ask for: a Kafka broker, which is ours and then Apache Kafka's own, so that Kafka settles what is right.

`kafka_broker` runs a test on both; `killable_broker` too, as processes; `new_broker` makes new brokers. A test process has at most two
Apache Kafkas at any time, one that its tests share and one of a test's own; where it cannot be had, its half of the tests is skipped with
the reason.
"""

import dataclasses
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ottla.cli.processes import OttlaProcess, ToolMissing
from ottla.protocol.wire.bounds import Entity, is_array, is_nullable, nested_entity
from ottla.testing.raw_client import RawClient
from tests.support.reference.apache_kafka import KEEP_OLD_RECORDS, QUICK_JVM_OPTIONS, VERSION, ApacheKafka, FormattedDirectory
from tests.support.reference.class_archives import archive_options, kafka_archive

CHECKOUT = Path(__file__).parent.parent
# For a node that runs to the end, and most of the time for nothing. Without anything to do it would append a record to its metadata every
# 500 ms. And it is never killed, so it may say that it lives as seldom as with Kafka's own settings: its idle CPU falls by a third again.
QUIET = {"metadata.max.idle.interval.ms": "0", "broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000"}
BOTH = ["ottla", pytest.param("apache-kafka", marks=pytest.mark.kafka)]


# The workers and the hundreds of Python programs that tests start would compile every module again, whatever the environment says.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Properties look for new examples on our own machines; in CI they take the same ones each time, so that red means a change. More of these
# would find nothing new there.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("here", deadline=None)
settings.register_profile("soak", deadline=None, max_examples=600)  # `make soak`: properties without a number of their own, or with a share
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(scope="session")
def messages() -> Callable[[Entity], SearchStrategy[Any]]:
    """Any object of one of kio's message classes, with up to three items in an array: Hypothesis' own arrays in arrays are long to make."""
    return _messages


@cache
def _messages(entity: Entity) -> SearchStrategy[Any]:
    return st.builds(entity, **{field.name: _values(field) for field in dataclasses.fields(entity)})


def _values(field: "dataclasses.Field[Any]") -> SearchStrategy[Any]:
    nested = nested_entity(field)
    if is_array(field):
        (items,) = {get_args(part)[0] for part in (field.type, *get_args(field.type)) if get_origin(part) is tuple}
        values = st.lists(_messages(nested) if nested else st.from_type(items), max_size=3).map(tuple)
    else:
        values = _messages(nested) if nested else st.from_type(field.type)  # type: ignore[arg-type]
    if is_nullable(field):
        values |= st.none()
    return values if field.default is dataclasses.MISSING else st.just(field.default) | values


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python reads its message descriptions by a call that Python has put on notice: not our business."""
    config.addinivalue_line("filterwarnings", r"ignore:(read_text|open_text) is deprecated:DeprecationWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """While tests are collected nothing is garbage: looking for some was a fifth of the CPU of each worker's collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What is loaded and collected stays until the end: to look through it in every full collection was a tenth of the tests' CPU."""
    gc.collect()
    gc.freeze()


class Reference:
    """The Apache Kafkas of this test process: one that most tests share, and sometimes one that a test has for itself.

    The shared one keeps running meanwhile: to start it again costs as much as minutes of waiting.
    """

    def __init__(self, directory: Path, report: Callable[[str], None]) -> None:
        self._directories = (directory / f"kafka-{number}" for number in itertools.count())
        self._formatted = FormattedDirectory(directory / "formatted")
        self._report = report
        self._shared: ApacheKafka | None = None
        self._own: list[ApacheKafka] = []
        self._missing: str | None = None

    def _make(self, config: Mapping[str, str], **options: Any) -> ApacheKafka:
        if self._missing is None:
            try:
                cache_dir = CHECKOUT / ".cache" / f"apache-kafka-{VERSION}"
                directory = next(self._directories)
                archive = archive_options(kafka_archive(CHECKOUT / ".cache"))
                jvm = {"jvm_options": QUICK_JVM_OPTIONS, "archive_options": archive}
                return ApacheKafka(directory, cache_dir=cache_dir, config=config, report=self._report, **jvm, **options)
            except ToolMissing as missing:
                self._missing = str(missing)
        pytest.skip(f"Apache Kafka {VERSION} {self._missing}")

    def shared(self) -> ApacheKafka:
        """The one that many tests share, running."""
        if self._shared is None:
            self._shared = self._make(KEEP_OLD_RECORDS | QUIET)
            self._shared.start()
        return self._shared

    def java_command(self, *arguments: str) -> list[str]:
        """The command line of one of Apache Kafka's own tools; nothing is started."""
        return self._make({}).java_command(*QUICK_JVM_OPTIONS, *arguments)

    def class_path(self) -> str:
        """The class path of Apache Kafka's jars."""
        return self._make({}).class_path

    def own(self, config: Mapping[str, str], log_dir: Path | None = None, listeners: Mapping[str, str] | None = None) -> ApacheKafka:
        """A new one for one test, started, on the directory that another broker left if there is one; `end_own` ends it."""
        self.end_own()
        broker = self._make(config, log_dir=log_dir, more_listeners=listeners, formatted=self._formatted)
        broker.start()
        self._own.append(broker)
        return broker

    def end_own(self) -> None:
        """End what `own` made."""
        while self._own:
            self._own.pop().kill()

    def close(self) -> None:
        """End everything."""
        self.end_own()
        if self._shared is not None:
            self._shared.kill()


@pytest.fixture(scope="session")
def recorded_incidents() -> Sequence[Any]:
    """All recorded incidents (`RecordedIncident`), run after run: they take seconds to read, and tests of three files look at them."""
    from trials.incidents.corpus import CORPUS, read_corpus

    return tuple(read_corpus(CHECKOUT / CORPUS))


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a message at once, past pytest's capture: that jars are fetched, for instance, which takes minutes."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def write(message: str) -> None:
        with capture.global_and_fixture_disabled():
            os.write(2, f"\n{message}\n".encode())

    return write


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, report: Callable[[str], None]) -> Iterator[Reference]:
    """This test process's Apache Kafka, not yet started."""
    holder = Reference(tmp_path_factory.mktemp("apache-kafka"), report)
    yield holder
    holder.close()


@pytest.fixture(params=BOTH)
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A running broker with `.bootstrap_servers` and `.kind` ("ottla", "apache-kafka"). Apache Kafka's is shared: use `unique_name`."""
    if request.param == "apache-kafka":
        yield request.getfixturevalue("reference").shared()
        return
    from ottla.broker import Broker

    with Broker() as broker:
        yield OurBroker(broker)


class OurBroker:
    """Our broker in this process, with the name of its kind."""

    kind = "ottla"

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.bootstrap_servers: str = broker.bootstrap_servers


@pytest.fixture(params=BOTH)
def new_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`new_broker({setting: value})` starts a new broker process with `start`, `stop`, `kill`, `bootstrap_servers`, `kind`."""
    if request.param == "apache-kafka":
        reference = request.getfixturevalue("reference")
        yield lambda config=None: reference.own(config or {})
        reference.end_own()
        return
    made: list[OttlaProcess] = []

    def make(config: Mapping[str, str] | None = None) -> OttlaProcess:
        made.append(OttlaProcess(tmp_path / f"data-{len(made)}", config=config))
        made[-1].start()
        return made[-1]

    yield make
    for broker in made:
        broker.stop()


@pytest.fixture(params=BOTH)
def killable_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A running broker process of the test's own that may be killed and started again, with its data on disk."""
    if request.param == "apache-kafka":
        reference = request.getfixturevalue("reference")
        # Fewer partitions to recover: one that many tests had filled took 9 s of CPU to start again.
        yield reference.own({"offsets.topic.num.partitions": "3"})
        reference.end_own()
        return
    with OttlaProcess(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def raw_client(kafka_broker: Any) -> Iterator[RawClient]:
    """One connection to the broker of `kafka_broker` that sends any request in any version."""
    with RawClient(kafka_broker.bootstrap_servers) as client:
        yield client


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """`unique_name("group")` gives a name that no other test uses: brokers are shared, and tests of two files may have one name."""
    numbers = itertools.count()
    test = "".join(letter if letter.isalnum() else "-" for letter in f"{request.path.stem}-{request.node.name}")[:110]
    return lambda what: f"{what}-{test}-{os.getpid()}-{next(numbers)}"
