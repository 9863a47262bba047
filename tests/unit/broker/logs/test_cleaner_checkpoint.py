"""Up to where logs are clean, over restarts and topics of the same name."""

import pytest

from ottla.broker.logs.cleaner_checkpoint import CleanerCheckpoint
from ottla.core.metadata.topics import Topic
from ottla.core.model import TopicPartition
from ottla.storage.checkpoints import CLEANER_FILE
from ottla.storage.memory_files import MemoryFiles


def topic(name: str, number: int) -> Topic:
    return Topic(name=name, topic_id=bytes([number]) * 16)


def test_what_is_written_is_read_again() -> None:
    files, orders = MemoryFiles(), topic("orders", 1)
    checkpoint = CleanerCheckpoint(files)
    checkpoint.load([orders])
    assert checkpoint.get(orders, 3) is None
    checkpoint.note(TopicPartition("orders", 3), 42)
    checkpoint.write()
    assert files.read_all(CLEANER_FILE) == b"0\n1\norders 3 42\n"
    again = CleanerCheckpoint(files)
    again.load([orders])
    assert (again.get(orders, 3), again.get(orders, 4)) == (42, None)


def test_topics_that_are_gone_are_left_out() -> None:
    files = MemoryFiles()
    files.replace(CLEANER_FILE, b"0\n2\nold 0 7\norders 0 8\n")
    checkpoint = CleanerCheckpoint(files)
    checkpoint.load([topic("orders", 1)])
    checkpoint.write()
    assert files.read_all(CLEANER_FILE) == b"0\n1\norders 0 8\n"


def test_a_later_topic_of_the_same_name_is_dirty() -> None:
    checkpoint = CleanerCheckpoint(MemoryFiles())
    first, second = topic("orders", 1), topic("orders", 2)
    checkpoint.load([first])
    checkpoint.note(TopicPartition("orders", 0), 42)
    assert checkpoint.get(second, 0) is None
    checkpoint.note(TopicPartition("orders", 0), 5)
    assert checkpoint.get(second, 0) == 5
    assert checkpoint.forget("orders")
    assert not checkpoint.forget("orders")
    assert checkpoint.get(second, 0) is None


def test_a_damaged_file_is_logged_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    files, orders = MemoryFiles(), topic("orders", 1)
    files.replace(CLEANER_FILE, b"0\n9\n")
    checkpoint = CleanerCheckpoint(files)
    checkpoint.load([orders])
    assert "damaged" in caplog.text
    assert checkpoint.get(orders, 0) is None
    checkpoint.write()
    assert files.read_all(CLEANER_FILE) == b"0\n0\n"
