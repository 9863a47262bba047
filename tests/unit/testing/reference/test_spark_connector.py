"""The connector's jars: which versions, and that they come alone; a program that stands in for Maven shows what is asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest

from ottla.testing.reference import spark_connector
from ottla.testing.reference.spark_connector import ARTIFACTS, VERSION, fetch_connector


def test_the_version_is_that_of_the_installed_spark() -> None:
    assert pyspark.__version__ == VERSION, "take the connector's version, and its Kafka client's, along"


def test_the_jars_come_alone_into_a_folder_named_after_their_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Sequence[str], Path, dict[str, Any]]] = []

    def fetch(artifacts: Sequence[str], directory: Path, **others: Any) -> list[Path]:
        asked.append((artifacts, directory, others))
        return [directory / "one.jar"]

    def report(message: str) -> None:
        raise AssertionError(message)

    monkeypatch.setattr(spark_connector, "fetch_jars", fetch)
    assert fetch_connector(tmp_path, report=report) == [tmp_path / f"spark-kafka-connector-{VERSION}" / "one.jar"]
    ((artifacts, _, others),) = asked
    assert (artifacts, others["are_alone"], others["report"]) == (ARTIFACTS, True, report)
    assert all(artifact.count(":") == 2 for artifact in artifacts)
