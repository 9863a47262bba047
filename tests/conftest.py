"""What every test may ask for: a Kafka broker, which is ours and then Apache Kafka's own, so that Kafka settles what is right.

`kafka_broker` runs a test on both; `killable_broker` too, as processes; `new_broker` makes brokers that nobody has used. At most one Apache
Kafka runs in a test process at any time; where it cannot be had, its half of the tests is skipped with the reason.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from ottla.testing.apache_kafka import QUICK_JVM_OPTIONS, VERSION, ApacheKafka
from ottla.testing.java import ToolMissing
from ottla.testing.ottla_process import OttlaProcess
from ottla.testing.raw_client import RawClient

CHECKOUT = Path(__file__).parent.parent
GROUPS = (
    "tests/spark/contract/",
    "tests/spark/(?!test_(demo|kill|cluster))",
    "tests/clients/test_java_client",
    # Those that have an Apache Kafka of their own: each puts aside the one that its worker's other tests share.
    "tests/kafka/test_(cleaner|data_directory|dump_log|group_scripts|groups_command|security)",
    r"tests/clients/test_(retention|s2_4_cleaner|s2_5_expiry|s2_offsets_topic)\.py.*\[apache-kafka",
)
BOTH = ["ottla", pytest.param("apache-kafka", marks=pytest.mark.kafka)]


# Properties look for new examples on our own machines; in CI they take the same ones each time, so that red means a change.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


class OneWorkerAGroup(LoadScopeScheduling):
    """Tests that share something dear (a Spark session, a compiled program) run in one worker, each of the others in any.

    By their places: the marks of `--dist loadgroup` are lost with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return next((group for group in GROUPS if re.match(group, nodeid)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneWorkerAGroup:
    """How tests are dealt out to workers: the largest group first."""
    return OneWorkerAGroup(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python reads its message descriptions by a call that Python has put on notice: not our business."""
    config.addinivalue_line("filterwarnings", r"ignore:(read_text|open_text) is deprecated:DeprecationWarning")


class Reference:
    """The one Apache Kafka of this test process: shared by most tests, put aside while a test has its own."""

    def __init__(self, directory: Path, tell: Callable[[str], None]) -> None:
        self._directories = (directory / f"kafka-{number}" for number in itertools.count())
        self._tell = tell
        self._shared: ApacheKafka | None = None
        self._own: list[ApacheKafka] = []
        self._missing: str | None = None

    def _make(self, config: Mapping[str, str], log_dir: Path | None = None, listeners: Mapping[str, str] | None = None) -> ApacheKafka:
        if self._missing is None:
            try:
                cache_dir = CHECKOUT / ".cache" / f"apache-kafka-{VERSION}"
                directory = next(self._directories)
                options = {"config": config, "log_dir": log_dir, "jvm_options": QUICK_JVM_OPTIONS, "tell": self._tell}
                return ApacheKafka(directory, cache_dir=cache_dir, more_listeners=listeners, **options)
            except ToolMissing as missing:
                self._missing = str(missing)
        pytest.skip(f"Apache Kafka {VERSION} {self._missing}")

    def shared(self) -> ApacheKafka:
        """The one that many tests share, running."""
        if self._shared is None:
            self._shared = self._make({})
        if not self._shared.is_running:
            self._shared.start()
        return self._shared

    def java_command(self, *arguments: str) -> list[str]:
        """The command line of one of Apache Kafka's own tools; nothing is started."""
        return self._make({}).java_command(*arguments)

    def own(self, config: Mapping[str, str], log_dir: Path | None = None, listeners: Mapping[str, str] | None = None) -> ApacheKafka:
        """A new one for one test, started, on the directory that another broker left if there is one; `end_own` ends it."""
        self.end_own()
        if self._shared is not None:
            self._shared.stop()  # comes back with its data when it is wanted again; in order, so that it comes back soon
        broker = self._make(config, log_dir, listeners)
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
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says something to whoever runs the tests, now: that it fetches jars, for instance, which takes minutes."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def write(message: str) -> None:
        with capture.global_and_fixture_disabled():
            os.write(2, f"\n{message}\n".encode())

    return write


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, tell: Callable[[str], None]) -> Iterator[Reference]:
    """This test process's Apache Kafka, not yet started."""
    holder = Reference(tmp_path_factory.mktemp("apache-kafka"), tell)
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
    """A running broker process that may be killed and started again, with its data on disk. Apache Kafka's is shared: use `unique_name`."""
    if request.param == "apache-kafka":
        yield request.getfixturevalue("reference").shared()
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
    """`unique_name("group")` gives a name that no other test uses: brokers are shared."""
    numbers = itertools.count()
    test = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:80]
    return lambda what: f"{what}-{test}-{os.getpid()}-{next(numbers)}"
