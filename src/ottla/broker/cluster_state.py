"""What the brokers of a process share: the catalogue, the partitions, and all that looks after them. Used from one loop alone."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice

from ottla.broker.answer_memory import AnswerMemory
from ottla.broker.background import Background
from ottla.broker.batch_reading import BatchReading
from ottla.broker.catalogue_log import CatalogueLog
from ottla.broker.clock import monotonic_ms, monotonic_s, now_ms
from ottla.broker.current_leader import Leader
from ottla.broker.deletions import Deletions
from ottla.broker.descriptors import Descriptors, descriptor_limit
from ottla.broker.directory_watch import DirectoryWatch
from ottla.broker.events import GroupEvents
from ottla.broker.health_watch import HealthWatch
from ottla.broker.leadership import Leadership
from ottla.broker.loading_lane import LoadingLanes
from ottla.broker.log_cleaner import LogCleaner
from ottla.broker.log_manager import LogManager
from ottla.broker.meta_properties import identify
from ottla.broker.missing_features import MissingFeatures
from ottla.broker.node import Node
from ottla.broker.offset_checkpoints import OffsetCheckpoints
from ottla.broker.partitions import Partitions
from ottla.broker.pipelining import Pipelining
from ottla.broker.record_code import RecordCode
from ottla.broker.removals import Removals
from ottla.broker.request_memory import request_memory
from ottla.broker.request_scheduler import RequestScheduler
from ottla.broker.timestamp_lookups import TimestampLookups
from ottla.broker.topics import Topics
from ottla.broker.turn import Turn
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, Catalogue
from ottla.core.catalogue.records import CatalogueRecord
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.config import BrokerConfig
from ottla.core.model import GroupEvent
from ottla.storage.checkpoints import CLEAN_SHUTDOWN_FILE
from ottla.storage.files import Files, OsFiles

log = logging.getLogger("ottla.broker.cluster_state")

_UNUSABLE_NAMED_MAX = 20


class ClusterState:
    """What is shared, and the brokers themselves: `brokers` of them at first, with the ids `node.id` and those that follow."""

    def __init__(
        self,
        files: Files,
        config: BrokerConfig,
        *,
        brokers: int = 1,
        clock: Callable[[], int] = now_ms,
        timer_clock: Callable[[], int] = monotonic_ms,
        on_group_event: Callable[[GroupEvent], None] | None = None,
        opening_executor: Executor | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.timer_clock = timer_clock
        self.turn = Turn()
        self.scheduler = RequestScheduler()
        self.pipelining = Pipelining()
        self.answer_memory = AnswerMemory()
        self.missing_features = MissingFeatures(monotonic_s)
        self.request_memory = request_memory(config.number("queued.max.request.bytes"))
        self.descriptors = Descriptors(descriptor_limit(), files.open_files_max if isinstance(files, OsFiles) else 0)
        self.cluster_id = ""
        self.catalogue = Catalogue(tuple(range(config.node_id, config.node_id + brokers)), config.text)
        checkpoints, removals = OffsetCheckpoints(files), Removals(files)
        self._checkpoints = checkpoints
        self.partitions = Partitions(files, self.catalogue, clock, checkpoints, removals, opening_executor)
        self.log_manager = LogManager(files, config, self.catalogue, self.partitions, checkpoints, removals, clock)
        self.cleaner = LogCleaner(files, config, self.catalogue, self.partitions, self.log_manager, clock)
        log_directory = files.absolute("").rstrip("/") if isinstance(files, OsFiles) else "memory"
        self.files = files
        self._catalogue_log = CatalogueLog(files, self.catalogue, clock, checkpoints)
        self.health = HealthWatch(self.partitions, self._catalogue_log.log, self.cleaner, log_directory, clock)
        self.directory_watch = DirectoryWatch(files, self.partitions, self._catalogue_log.log)
        self.deletions = Deletions((checkpoints.write, self.cleaner.write_checkpoint))
        self.topics = Topics(config, self._catalogue_log, self.partitions, self.deletions)
        self.events = GroupEvents(self.topics, self.partitions, clock, on_group_event)
        self.leadership = Leadership(self)
        self.loading_lanes = LoadingLanes()
        # One thread: several would only take turns, and the loop would wait for each of them.
        self.loading_executor = ThreadPoolExecutor(1, thread_name_prefix="ottla-loading")
        self._record_code = RecordCode()
        self.batch_reading = BatchReading(self._record_code.check)
        self.timestamp_lookups = TimestampLookups(self._record_code.find)
        self.background = Background()
        self.nodes = {node_id: Node(node_id, self) for node_id in self.catalogue.broker_ids}
        self.deleted_unserved: dict[int, set[str]] = {}
        """By offsets partition, topics that were deleted while nobody served its groups: their offsets go when somebody does."""
        self._producer_id = self._producer_ids_end = 0

    def open(self) -> None:
        """Reads back what the directory holds (after a crash, every log), and begins to load the groups. Raises StorageError."""
        after_crash = not self.files.exists(CLEAN_SHUTDOWN_FILE)
        identity = identify(self.files, self.config.node_id)
        self.cluster_id = identity.cluster_id
        self._checkpoints.load()
        self._catalogue_log.open(self.config.node_id, identity, after_crash=after_crash)
        self._warn_of_unusable_settings()
        self.log_manager.open()
        for node in self.nodes.values():
            node.groups.load()

    def _warn_of_unusable_settings(self) -> None:
        """What this version or Apache Kafka refuses does not keep a broker from starting when it lies in the directory already."""
        unusable = self.catalogue.configs.unusable()
        for refused in islice(unusable, _UNUSABLE_NAMED_MAX):
            log.warning(
                "%s: %s; its default is used until it is set again or deleted (kafka-configs --alter)", refused.owner, refused.problem
            )
        more = sum(1 for _ in unusable)
        if more:
            log.warning("%d more settings in the data directory are invalid: their defaults are used", more)

    async def loaded(self, seconds_max: float) -> None:
        """Waits until every coordinator has read its log, but no longer than that: clients can wait too."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(node.groups.loaded() for node in self.nodes.values())), seconds_max)

    def close(self) -> None:
        """Writes what is pending, closes every log cleanly, and says so on the disk, at the very end. Raises StorageError."""
        self.scheduler.close()
        for node in self.nodes.values():
            node.groups.drop()
        self.background.cancel()
        self.batch_reading.close()
        self.timestamp_lookups.close()
        self._record_code.close()
        self.loading_lanes.close()
        self.loading_executor.shutdown(wait=True, cancel_futures=True)
        self.events.flush()
        self.log_manager.close()
        self._catalogue_log.close()
        self.log_manager.mark_clean()

    def delete_topic(self, name: str) -> Refused | None:
        """Deletes a topic with its files and its committed offsets; `deletions.write` and `partitions.when_moved` are to follow.

        Raises StorageError.
        """
        records = self.catalogue.delete_topic(name)
        if isinstance(records, Refused):
            return records
        topic = self.catalogue.topics[name]
        self._catalogue_log.append(records)
        for node in self.nodes.values() if name == CONSUMER_OFFSETS else ():
            node.groups.drop()
        self.partitions.delete(topic)
        self.cleaner.topic_deleted(name)
        self.deletions.note(name)
        self._forget_offsets(name)
        return None

    def _forget_offsets(self, name: str) -> None:
        if name == CONSUMER_OFFSETS:
            self.deleted_unserved.clear()
        topic = self.catalogue.topics.get(CONSUMER_OFFSETS)
        served = {number for node in self.nodes.values() for number in node.groups.forget_topics((name,))}
        for number in range(len(topic.leaders)) if topic else ():
            if number not in served:
                self.deleted_unserved.setdefault(number, set()).add(name)

    @property
    def controller_id(self) -> int:
        """The broker that clients take for the controller: the first that runs."""
        return next((node.id for node in self.nodes.values() if node.is_alive), -1)

    def endpoint(self, node_id: int) -> Leader | None:
        """Where a broker is, None when there is no such broker."""
        node = self.nodes.get(node_id)
        return None if node is None else node.endpoint

    def add_node(self) -> Node:
        """One more broker, that does not run yet."""
        node = Node(max(self.nodes) + 1, self)
        self.catalogue.broker_ids = (*self.catalogue.broker_ids, node.id)
        self.nodes[node.id] = node
        return node

    def remove_node(self, node: Node) -> None:
        """Forgets a broker that could not begin to run."""
        del self.nodes[node.id]
        self.catalogue.broker_ids = tuple(self.nodes)

    def append_to_catalogue(self, records: Sequence[CatalogueRecord]) -> None:
        """Keeps changes of who leads, then applies them. Raises StorageError, with nothing applied."""
        self._catalogue_log.append(records)

    def next_producer_id(self) -> int:
        """A producer id that no producer of this cluster ever had. Raises StorageError."""
        if self._producer_id == self._producer_ids_end:
            self._producer_id = self.catalogue.next_producer_id
            self._catalogue_log.append([self.catalogue.next_producer_block(self.config.node_id)])
            self._producer_ids_end = self.catalogue.next_producer_id
        self._producer_id += 1
        return self._producer_id - 1
