"""Fetch (1), v4-18: returns record batches as they are in the log, and is parked at its end until there are more.

Version notes: v7+ keeps the requested partitions in a session (KIP-227), and later requests contain only changes; v12+ is flexible, and
returns the diverging epoch for the epoch of the client's last record (KIP-595); v13+ takes topics by id (KIP-516); v16+ returns the
current leader for an old leader epoch (KIP-951).
"""

from collections.abc import Callable

from ottla.broker.cluster.brokers import Node
from ottla.broker.fetch.messages import FIRST_VERSION_WITH_TOPIC_IDS, NO_SESSION, decode_fetch_request, encode_fetch_response
from ottla.broker.fetch.pending_fetch import FetchCollaborators, PendingFetch
from ottla.broker.fetch.sessions import FetchSessions
from ottla.broker.network.memory import ResponseMemory
from ottla.broker.network.request import Access, Api, Request
from ottla.broker.network.scheduling import Background, RequestScheduler
from ottla.broker.partitions.partitions import Partitions
from ottla.config import BrokerConfig
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


class Fetch:
    """Resolves the session of each request and starts its fetch."""

    __slots__ = ("broker", "clock", "sessions")

    def __init__(
        self,
        *,
        background: Background,
        clock: Callable[[], int],
        cluster_metadata: ClusterMetadata,
        config: BrokerConfig,
        fetch_sessions: FetchSessions,
        node: Node,
        partitions: Partitions,
        response_memory: ResponseMemory,
        scheduler: RequestScheduler,
    ) -> None:
        self.clock = clock
        self.sessions = fetch_sessions
        self.broker = FetchCollaborators(
            background=background,
            clock=clock,
            cluster_metadata=cluster_metadata,
            config=config,
            memory=response_memory,
            node_id=node.id,
            partitions=partitions,
            scheduler=scheduler,
            sessions=fetch_sessions,
        )

    def handle(self, request: Request) -> None:
        """Answer at once when there is enough, something is wrong, or the client does not want to wait; otherwise when the log has grown or
        time is up."""
        asked = decode_fetch_request(request.buffer, request.body_at, request.version)
        context = self.sessions.context(
            asked.session_id,
            asked.session_epoch,
            asked.partitions,
            asked.forgotten,
            uses_topic_ids=request.version >= FIRST_VERSION_WITH_TOPIC_IDS,
            now_ms=self.clock(),
        )
        if isinstance(context, ErrorCode):
            request.reply_body(encode_fetch_response(request.version, context, NO_SESSION, [], request.session.endpoint))
            return
        PendingFetch(self.broker, request, asked, context).start(None)


API = Api(
    key=ApiKey.FETCH,
    versions=range(4, 19),
    handle=Fetch,
    decodes_itself=True,
    access=(Access(Operation.READ, ResourceType.TOPIC, "topics[].topic"),),
)
