"""The results of a migration, as they are printed."""

from ottla.cli.groups.reset_plan_file import read_plan
from ottla.cli.migrate.text import document, plan, summary
from ottla.core.model import TopicPartition
from ottla.spark.migration.job import Migrated
from ottla.spark.migration.offsets import Carried

MIGRATED = Migrated(records=9, groups={"a\n": Carried({10: 4, 2: 3}, 5)})


def test_as_text() -> None:
    copied = summary("wide", "narrow", MIGRATED, is_forecast=False)
    assert copied == "9 records copied from wide to narrow\ngroup a\\n reads 5 records again, from 2:3, 10:4"
    forecast = summary("wide", "narrow", MIGRATED, is_forecast=True)
    assert forecast == "9 records would be copied from wide to narrow\ngroup a\\n would read 5 records again, from 2:3, 10:4"


def test_as_json() -> None:
    assert document("wide", "narrow", MIGRATED, is_forecast=True) == {
        "source": "wide",
        "target": "narrow",
        "dry_run": True,
        "records": 9,
        "gone": 0,
        "groups": {"a\n": {"replay": 5, "offsets": {"2": 3, "10": 4}}},
    }


def test_as_a_plan_that_ottla_groups_reads() -> None:
    text = plan("narrow", MIGRATED)
    assert text == '"a\n",narrow,2,3\n"a\n",narrow,10,4\n'
    assert read_plan(text, ()) == {"a": {TopicPartition("narrow", 2): 3, TopicPartition("narrow", 10): 4}}


def test_records_that_the_source_no_longer_has_are_told() -> None:
    words = summary("wide", "narrow", Migrated(records=9, groups={}, gone=4), is_forecast=False)
    assert words == "9 records copied from wide to narrow\n4 records of narrow are from an earlier run, and wide no longer has them"
