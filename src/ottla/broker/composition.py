"""Makes the components of the brokers of a process and connects them: here alone is known which class uses which.

Only the life cycle of the brokers (`running_brokers`) imports this module.
"""

import asyncio
import logging
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice

from ottla.broker.api_registry import SERVED_VERSIONS, bind_apis
from ottla.broker.clock import monotonic_ms, monotonic_s, now_ms
from ottla.broker.cluster.brokers import Brokers, Node, PartitionOpening
from ottla.broker.cluster.leadership import Leadership
from ottla.broker.cluster.topics import Coordinators, ProducerIds, TopicDeletion, Topics
from ottla.broker.coordination.coordinators import BrokerCoordinators, ClusterCoordinators
from ottla.broker.coordination.groups import GroupEvents, GroupRouter, LoadingBackends, PendingReplies
from ottla.broker.coordination.transactions import OffsetsMarkers, TransactionalIds, TransactionMarkers, TransactionRouter
from ottla.broker.fetch.partition_reading import TimestampLookups
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.metadata_log import MetadataLog, identify
from ottla.broker.monitoring.health import HealthSampler
from ottla.broker.network.authorizer import AclAuthorizer
from ottla.broker.network.connection import Server
from ottla.broker.network.dispatch import Dispatcher, MissingFeatures
from ottla.broker.network.limits import ConnectionLimits, ConnectionQuotas, Descriptors, descriptor_limit
from ottla.broker.network.listener_security import listener_security
from ottla.broker.network.memory import ResponseMemory, request_memory
from ottla.broker.network.request import Authorizer, Session
from ottla.broker.network.scheduling import Background, EventLoopBatch, Pipelining, RequestScheduler
from ottla.broker.network.throttling import Throttling
from ottla.broker.partitions.batch_reading import BatchReading, RecordCheckBackend
from ottla.broker.partitions.directory_watch import DirectoryWatch
from ottla.broker.partitions.log_cleaner import LogCleaner
from ottla.broker.partitions.log_manager import LogManager
from ottla.broker.partitions.offset_checkpoints import CheckpointDeletions, OffsetCheckpoints
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.removals import Removals
from ottla.config import BrokerConfig, super_users
from ottla.config.listeners import ListenerConfig
from ottla.groups.coordinator import GroupCoordinator, GroupService
from ottla.groups.events import GroupEvent
from ottla.groups.settings import GroupSettings
from ottla.log.checkpoints import CLEAN_SHUTDOWN_FILE
from ottla.log.file_system import Files
from ottla.log.files import OsFiles
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.records import UserScramCredentialRecord
from ottla.security.access import Operation, ResourceType
from ottla.security.acls import StandardAuthorizer
from ottla.security.scram_words import ScramUser
from ottla.transactions.coordinator import TransactionCoordinator, TransactionService, TransactionSettings

log = logging.getLogger(__name__)

_UNUSABLE_NAMED_MAX = 20
_SECRET_BYTES = 32


class Components:
    """The components of the brokers of a process: `brokers` of them at first, with the ids `node.id` and those that follow."""

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
        authorizer: Authorizer | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.timer_clock = timer_clock
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self.files = files
        self.cluster_id = ""
        self.cluster_metadata = ClusterMetadata(tuple(range(config.node_id, config.node_id + brokers)), config.text)
        self.authorizer = authorizer or self._acl_authorizer()
        self._make_logs(opening_executor)
        self._make_requests()
        self._make_coordination(on_group_event)
        for node_id in self.cluster_metadata.broker_ids:
            self._add_node(node_id)

    def _acl_authorizer(self) -> Authorizer | None:
        if not self.config.text("authorizer.class.name").strip():
            return None
        allow_if_no_acl_found = self.config.flag("allow.everyone.if.no.acl.found")
        users = super_users(self.config.text("super.users"))
        decisions = StandardAuthorizer(self.cluster_metadata.acls.index, users, allow_if_no_acl_found=allow_if_no_acl_found)
        return AclAuthorizer(decisions, monotonic_s)

    def metrics_access(self) -> Callable[[str], bool]:
        """Whether clients of the metrics' port may read it, by address: without authentication, they are User:ANONYMOUS."""
        # Of its own, as it is asked in the thread of that port: what is remembered belongs to one thread.
        authorizer = self._acl_authorizer()
        return lambda address: Session("METRICS", lambda _: None, (address, 0), authorizer).may(
            Operation.DESCRIBE, ResourceType.CLUSTER, log_if_denied=False
        )

    def _make_logs(self, opening_executor: Executor | None) -> None:
        """The logs, and all that reads or cleans them."""
        files, config, clock = self.files, self.config, self.clock
        self._checkpoints, removals = OffsetCheckpoints(files), Removals(files)
        self.partitions = Partitions(files, self.cluster_metadata, clock, self._checkpoints, removals, opening_executor)
        self.log_manager = LogManager(files, config, self.cluster_metadata, self.partitions, self._checkpoints, removals, clock)
        self.cleaner = LogCleaner(files, config, self.cluster_metadata, self.partitions, self.log_manager, clock)
        self.metadata_log = MetadataLog(files, self.cluster_metadata, clock, self._checkpoints)
        self.deletions = CheckpointDeletions((self._checkpoints.write, self.cleaner.write_checkpoint))
        self.log_directory = files.absolute("").rstrip("/") if isinstance(files, OsFiles) else "memory"
        self.health = HealthSampler(self.partitions, self.metadata_log.log, self.cleaner, self.log_directory, clock)
        self.directory_watch = DirectoryWatch(files, self.partitions, self.metadata_log.log, self._checkpoints)
        self._record_code = RecordCheckBackend()
        self.batch_reading = BatchReading(self._record_code.check)
        self.timestamp_lookups = TimestampLookups(self._record_code.find)

    def _make_requests(self) -> None:
        """What connections and requests share, and its bounds."""
        self.event_loop_batch = EventLoopBatch()
        self.scheduler = RequestScheduler()
        self.background = Background()
        self.pipelining = Pipelining()
        self.request_memory = request_memory(self.config.number("queued.max.request.bytes"))
        self.response_memory = ResponseMemory()
        self.connection_limits = ConnectionLimits(self.cluster_metadata.configs)
        self.missing_features = MissingFeatures(monotonic_s)
        self.descriptors = Descriptors(descriptor_limit(), self.files.open_files_max if isinstance(self.files, OsFiles) else 0)

    def _make_coordination(self, on_group_event: Callable[[GroupEvent], None] | None) -> None:
        """Topics, leaders and groups, and the brokers, of which there is none yet."""
        watchers = (self.cleaner.settings_changed, self.connection_limits.settings_changed)
        self.topics = Topics(self.config, self.metadata_log, self.partitions, self.deletions, watchers)
        self.producer_ids = ProducerIds(self.metadata_log, self.config.node_id)
        self.events = GroupEvents(self.topics, self.partitions, self.clock, on_group_event)
        self.loading_backends = LoadingBackends()
        # One thread: several would only take turns, and the loop would wait for each of them.
        self.loading_executor = ThreadPoolExecutor(1, thread_name_prefix="ottla-loading")
        self.brokers = Brokers(self.cluster_metadata)
        self.coordinators: ClusterCoordinators[GroupCoordinator] = ClusterCoordinators(
            GroupCoordinator.topic, cluster_metadata=self.cluster_metadata
        )
        self.transaction_coordinators: ClusterCoordinators[TransactionCoordinator] = ClusterCoordinators(
            TransactionCoordinator.topic, cluster_metadata=self.cluster_metadata
        )
        all_coordinators: dict[str, Coordinators] = {
            GroupCoordinator.topic: self.coordinators,
            TransactionCoordinator.topic: self.transaction_coordinators,
        }
        self.groups: dict[int, GroupRouter] = {}
        self.transactions: dict[int, TransactionRouter] = {}
        self.transactional_ids = TransactionalIds(topics=self.topics, coordinators=self.transaction_coordinators, routers=self.transactions)
        self.markers = TransactionMarkers(
            transactional_ids=self.transactional_ids,
            topics=self.topics,
            partitions=self.partitions,
            clock=self.clock,
            write_offsets_marker=OffsetsMarkers(self.coordinators, self.cluster_metadata),
        )
        self.fetch_sessions: dict[int, FetchSessions] = {}
        self.throttling: dict[int, Throttling] = {}
        self.leadership = Leadership(
            metadata_log=self.metadata_log,
            partitions=self.partitions,
            topics=self.topics,
            brokers=self.brokers,
            coordinators=all_coordinators,
        )
        self.topic_deletion = TopicDeletion(
            metadata_log=self.metadata_log,
            partitions=self.partitions,
            cleaner=self.cleaner,
            deletions=self.deletions,
            coordinators=all_coordinators,
        )

    def _add_node(self, node_id: int) -> Node:
        node = Node(node_id, cluster_metadata=self.cluster_metadata, partitions=self.partitions)
        replies = PendingReplies()
        coordinators = self.coordinators.by_broker[node_id] = BrokerCoordinators(
            service=GroupService(
                GroupSettings.from_config(self.config), self.loading_backends.choose, self.cluster_metadata, self.cluster_metadata.configs
            ),
            node=node,
            topics=self.topics,
            partitions=self.partitions,
            clock=self.clock,
            timer_clock=self.timer_clock,
            publish=self.events.publish,
            replies=replies,
            event_loop_batch=self.event_loop_batch,
            loading_executor=self.loading_executor,
            undelivered=self.coordinators.undelivered,
        )
        self.groups[node_id] = GroupRouter(topics=self.topics, coordinators=coordinators, replies=replies)
        self._add_transactions(node)
        sessions_max = self.config.number("max.incremental.fetch.session.cache.slots")
        self.fetch_sessions[node_id] = FetchSessions(sessions_max, lambda: uuid.uuid4().int % (2**31 - 1) + 1)
        self.throttling[node_id] = self._throttling()
        self.brokers.add(node)
        return node

    def _throttling(self) -> Throttling:
        windows, of_controller = (
            (self.config.number(f"{prefix}quota.window.num"), self.config.number(f"{prefix}quota.window.size.seconds"))
            for prefix in ("", "controller.")
        )
        return Throttling(self.cluster_metadata.client_quotas, monotonic_s, windows=windows, controller_windows=of_controller)

    def _add_transactions(self, node: Node) -> None:
        replies = PendingReplies()
        coordinators = self.transaction_coordinators.by_broker[node.id] = BrokerCoordinators(
            service=TransactionService(TransactionSettings.from_config(self.config), self.producer_ids),
            node=node,
            topics=self.topics,
            partitions=self.partitions,
            clock=self.clock,
            timer_clock=self.timer_clock,
            publish=self.markers.take,
            replies=replies,
            event_loop_batch=self.event_loop_batch,
            loading_executor=self.loading_executor,
            undelivered=self.transaction_coordinators.undelivered,
        )
        self.transactions[node.id] = TransactionRouter(topics=self.topics, coordinators=coordinators, replies=replies)

    def add_node(self) -> Node:
        """Add a broker that does not run yet."""
        return self._add_node(max(self.brokers.nodes) + 1)

    def remove_node(self, node: Node) -> None:
        """Remove a broker that could not be started."""
        self.brokers.remove(node)
        del self.coordinators.by_broker[node.id], self.groups[node.id], self.fetch_sessions[node.id]
        del self.throttling[node.id]
        del self.transaction_coordinators.by_broker[node.id], self.transactions[node.id]

    def collaborators(self, node: Node) -> Mapping[str, object]:
        """What the API handlers of one broker may ask for, by the names of their keyword parameters."""
        partition_opening = PartitionOpening(
            node=node,
            cluster_metadata=self.cluster_metadata,
            partitions=self.partitions,
            scheduler=self.scheduler,
            background=self.background,
        )
        return {
            "authorizer": self.authorizer,
            "background": self.background,
            "batch_reading": self.batch_reading,
            "brokers": self.brokers,
            "clock": self.clock,
            "cluster_id": self.cluster_id,
            "cluster_metadata": self.cluster_metadata,
            "cluster_topics": self.topics,
            "config": self.config,
            "deletions": self.deletions,
            "fetch_sessions": self.fetch_sessions[node.id],
            "files": self.files,
            "groups": self.groups[node.id],
            "leadership": self.leadership,
            "log_directory": self.log_directory,
            "markers": self.markers,
            "metadata_log": self.metadata_log,
            "missing_features": self.missing_features,
            "node": node,
            "partition_opening": partition_opening,
            "partitions": self.partitions,
            "producer_ids": self.producer_ids,
            "response_memory": self.response_memory,
            "scheduler": self.scheduler,
            "served_versions": SERVED_VERSIONS,
            "throttling": self.throttling[node.id],
            "timer_clock": self.timer_clock,
            "timestamp_lookups": self.timestamp_lookups,
            "topic_deletion": self.topic_deletion,
            "transactional_ids": self.transactional_ids,
            "transactions": self.transactions[node.id],
        }

    def dispatcher(self, node: Node) -> Dispatcher:
        """The requests of one broker; after `open`, as the cluster's id is known then."""
        apis = bind_apis(self.collaborators(node))
        is_checked, throttling = self.authorizer is not None, self.throttling[node.id]
        return Dispatcher(apis, self.scheduler, self.missing_features, is_checked=is_checked, throttling=throttling)

    def _connection_quotas(self) -> ConnectionQuotas:
        windows = self.config.number("quota.window.num"), self.config.number("quota.window.size.seconds")
        return ConnectionQuotas(self.connection_limits, self.descriptors, self.cluster_metadata.client_quotas, windows)

    def servers(self, node: Node, listeners: Iterable[ListenerConfig]) -> dict[str, Server]:
        """The connections of one broker, by listener; after `open`. Raises ConfigError for a limit of a host with an unknown name, and for
        settings of TLS or SASL that cannot be used.
        """
        self.connection_limits.load()
        dispatcher, quotas = self.dispatcher(node), self._connection_quotas()
        return {
            listener.name: Server(
                name=listener.name,
                endpoint=partial(self.brokers.endpoint, listener.name),
                authorizer=self.authorizer,
                dispatcher=dispatcher,
                config=self.config,
                quotas=quotas,
                descriptors=self.descriptors,
                event_loop_batch=self.event_loop_batch,
                pipelining=self.pipelining,
                request_memory=self.request_memory,
                response_memory=self.response_memory,
                security=listener_security(
                    listener,
                    self.config,
                    self.cluster_metadata.scram.of,
                    clock=self.timer_clock,
                    wall_clock=self.clock,
                    secret=self._secret,
                ),
            )
            for listener in listeners
        }

    def open(self) -> None:
        """Read back what the directory holds (after a crash, every log), and start to load the groups. Raises StorageError."""
        after_crash = not self.files.exists(CLEAN_SHUTDOWN_FILE)
        identity = identify(self.files, self.config.node_id)
        self.cluster_id = identity.cluster_id
        self._checkpoints.load()
        self.metadata_log.open(self.config.node_id, identity, after_crash=after_crash)
        self._warn_of_unusable_settings()
        if self.cluster_metadata.acls and self.authorizer is None:
            count = len(self.cluster_metadata.acls)
            log.warning("the cluster has %d ACLs that have no effect: set authorizer.class.name (`ottla docs acls`)", count)
        self.log_manager.open()
        self.coordinators.start_all()
        self.transaction_coordinators.start_all()

    def add_scram_users(self, users: Iterable[ScramUser]) -> None:
        """Add users that have no credential of the mechanism yet: one that there is has perhaps been changed since. Raises StorageError."""
        scram = self.cluster_metadata.scram
        new = [user for user in users if all(user.mechanism != number for number, _ in scram.infos(user.name))]
        self.metadata_log.append([UserScramCredentialRecord(**user._asdict()) for user in new])

    def _warn_of_unusable_settings(self) -> None:
        """Invalid settings in the directory do not keep a broker from starting, nor do those that take precedence over what was given."""
        unusable = self.cluster_metadata.configs.unusable()
        for refused in islice(unusable, _UNUSABLE_NAMED_MAX):
            log.warning(
                "%s: %s; its default is used until it is set again or deleted (kafka-configs --alter)", refused.owner, refused.problem
            )
        for capped in islice(self.cluster_metadata.configs.capped(), _UNUSABLE_NAMED_MAX):
            log.warning("%s", capped)
        for overridden in self.cluster_metadata.configs.overridden(self.config.given):
            log.warning("%s", overridden)
        more = sum(1 for _ in unusable)
        if more:
            log.warning("%d more settings in the data directory are invalid: their defaults are used", more)

    async def loaded(self, seconds_max: float) -> None:
        """Wait until every coordinator has read its log, but no longer than that: clients can wait too."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(self.coordinators.loaded(), self.transaction_coordinators.loaded()), seconds_max)

    def close(self) -> None:
        """Write what is pending, close every log cleanly, and record that on the disk, at the very end. Raises StorageError."""
        self.scheduler.close()
        self.transaction_coordinators.resign_all()
        self.coordinators.resign_all()
        self.background.cancel()
        self.batch_reading.close()
        self.timestamp_lookups.close()
        self._record_code.close()
        self.loading_backends.close()
        self.loading_executor.shutdown(wait=True, cancel_futures=True)
        self.events.flush()
        self.log_manager.close()
        self.metadata_log.close()
        self.log_manager.mark_clean()
