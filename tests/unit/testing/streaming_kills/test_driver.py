"""The program that is killed in the kill tests, as far as it can be known without Spark; tests/spark/test_kill.py runs it."""

from ottla.testing.streaming_kills.driver import SOURCES, Job


def test_a_job_is_the_programs_arguments():
    job = Job("127.0.0.1:1", "t", "g", "/tmp/x", "ottla")
    assert Job(*[str(argument) for argument in job]) == job


def test_sources_are_called_by_the_name_of_their_format():
    assert {name: source.name() for name, source in SOURCES.items()} == {name: name for name in SOURCES}
