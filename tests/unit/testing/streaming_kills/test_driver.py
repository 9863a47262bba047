"""The program that is killed in the kill tests, as far as it can be known without Spark; tests/spark/test_kill.py runs it."""

from ottla.testing.streaming_kills.driver import SOURCES, Job

JOB = Job("127.0.0.1:1", "t", "g", "/tmp/x", "ottla", "commit", "range", "6000", "1000", "")


def test_a_job_is_the_programs_arguments():
    assert Job(*[str(argument) for argument in JOB]) == JOB


def test_sources_are_called_by_the_name_of_their_format():
    assert {name: source.name() for name, source in SOURCES.items()} == {name: name for name in SOURCES}


def test_a_query_that_commits_begins_at_the_first_record_and_a_member_where_its_group_is():
    every = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"}
    assert JOB.options() == {**every, "startingOffsets": "earliest"}
    member = JOB._replace(mode="member", assignor="cooperative-sticky")
    expected = {
        **every,
        "ottla.group.mode": "member",
        "kafka.auto.offset.reset": "earliest",
        "kafka.partition.assignment.strategy": "cooperative-sticky",
        "kafka.session.timeout.ms": "6000",
        "kafka.heartbeat.interval.ms": "1000",
    }
    assert member.options() == expected
    assert member._replace(instance="one").options() == {**expected, "kafka.group.instance.id": "one"}
