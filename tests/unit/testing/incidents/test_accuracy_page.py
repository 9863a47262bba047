"""The page of figures: its tables, also where there is nothing."""

from dataclasses import replace

from ottla.testing.incidents.accuracy_page import accuracy_page, corpus_table, figures_table, matrix_table
from ottla.testing.incidents.labels import Incident
from ottla.testing.incidents.measure import Measured
from ottla.testing.incidents.scoring import score


def test_the_corpus_by_cause_and_cluster(incident: Incident) -> None:
    table = corpus_table([incident, incident, replace(incident, cluster="apache-kafka", protocol="consumer", cause="ADMIN")])
    assert table.splitlines() == [
        "| cause | Apache Kafka, KIP-848 | Ottla |",
        "|---|---|---|",
        "| ADMIN | 1 |  |",
        "| JOIN_NEW |  | 2 |",
        "| **incidents** | 1 | 2 |",
    ]


def test_the_matrix_has_the_right_ones_first(incident: Incident) -> None:
    scored = score(incident, [])
    assert matrix_table([*scored, *scored]).splitlines()[-1] == "| JOIN_NEW | (none) 2 |"


def test_a_page_has_all_sets_and_none_breaks_without_incidents(incident: Incident) -> None:
    page = accuracy_page([incident], [Measured("broker log", score(incident, []), 0), Measured("own events", [], 3)])
    assert page.count("| broker log |") == 3
    assert "### own events" in page
    assert figures_table([Measured("own events", [], 3)]).splitlines()[-1] == "| own events | 0 |  |  | 0 |  |  | 0 | 3 |"
