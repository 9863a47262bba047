"""Up to where each log is clean: Kafka's `cleaner-offset-checkpoint`, in memory and in its file.

An offset counts only for the topic that it was noted for: a later topic of the same name begins as dirty. The cleaner decides when
it is written.
"""

import logging
from collections.abc import Iterable
from threading import Lock

from ottla.core.metadata.topics import Topic
from ottla.core.model import TopicPartition
from ottla.storage.checkpoints import CLEANER_FILE, decode_offsets, encode_offsets
from ottla.storage.file_system import Files

log = logging.getLogger(__name__)


class CleanerCheckpoint:
    """The event loop changes it; any thread may write the file."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._offsets: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._written = b""
        self._lock = Lock()

    def load(self, topics: Iterable[Topic]) -> None:
        """Read the file, for the topics there are now. A damaged file is logged and not used. Raises StorageError."""
        self._topic_ids = {topic.name: topic.topic_id for topic in topics}
        if not self._files.exists(CLEANER_FILE):
            return
        self._written = self._files.read_all(CLEANER_FILE)
        offsets = decode_offsets(self._written)
        if offsets is None:
            log.warning("%s is damaged and not used: compacted topics are cleaned from their start", CLEANER_FILE)
        else:
            self._offsets = {name: offset for name, offset in offsets.items() if name.topic in self._topic_ids}

    def get(self, topic: Topic, number: int) -> int | None:
        """Up to which offset the partition is clean; None when it never was cleaned."""
        if self._topic_ids.get(topic.name) != topic.topic_id:
            self.forget(topic.name)
            self._topic_ids[topic.name] = topic.topic_id
        return self._offsets.get(TopicPartition(topic.name, number))

    def note(self, name: TopicPartition, offset: int) -> None:
        """The partition is clean up to `offset`."""
        self._offsets[name] = offset

    def forget(self, topic_name: str) -> bool:
        """The topic is gone; whether anything was known of it."""
        self._topic_ids.pop(topic_name, None)
        gone = [name for name in self._offsets if name.topic == topic_name]
        for name in gone:
            del self._offsets[name]
        return bool(gone)

    def write(self) -> None:
        """Replace the file, if something has changed. Raises StorageError."""
        with self._lock:
            data = encode_offsets(dict(self._offsets))
            if data != self._written:
                self._files.replace(CLEANER_FILE, data)
                self._written = data
