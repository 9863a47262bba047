"""The results of a migration, as they are printed."""

from ottla.cli.migrate.text import document, summary
from ottla.spark.migration.job import Migrated
from ottla.spark.migration.offsets import Carried

MIGRATED = Migrated(records=9, groups={"a\n": Carried({10: 4, 2: 3}, 5)})


def test_as_text() -> None:
    assert summary("wide", "narrow", MIGRATED) == "9 records copied from wide to narrow\ngroup a\\n reads 5 records again, from 2:3, 10:4"


def test_as_json() -> None:
    groups = {"a\n": {"offsets": {"2": 3, "10": 4}, "replayed": 5}}
    assert document("wide", "narrow", MIGRATED) == {"source": "wide", "target": "narrow", "records": 9, "groups": groups}
