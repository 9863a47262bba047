"""One Spark session for all tests that need one: it takes longer to start than most of them take to run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing.java import ToolMissing, find_java


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder starts Spark."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The session of ottla.spark.session, made small."""
    try:
        java = find_java()
    except ToolMissing as missing:
        pytest.skip(f"Spark {missing}")
    from ottla.spark.session import SMALL, local_session

    settings = {
        **SMALL,
        # Nothing of a test run stays in the checkout.
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        # The tests' tables are tiny; the rest of the machine belongs to brokers and other tests.
        "spark.driver.memory": "1g",
    }
    with pytest.MonkeyPatch.context() as environment:
        # Spark's own scripts look in fewer places than we do.
        environment.setenv("JAVA_HOME", str(java.resolve().parent.parent))
        session = local_session("ottla-tests", cores="2", settings=settings)
    yield session
    session.stop()
