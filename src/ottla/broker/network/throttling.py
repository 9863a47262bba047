"""Requests are measured against the quotas of their clients, and those above are throttled (KIP-13, KIP-124, KIP-219, KIP-599).

A response goes out at once with its throttle time; then the connection's next request waits for so long, which holds clients back that do
not know the field. Measured are the bytes of Produce requests and of Fetch responses, and the time that the event loop spends in handlers.
Without a quota nothing is measured, and a request costs one comparison more.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.broker.network.request import Request
from ottla.metadata.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
)
from ottla.metadata.quota_usage import MutationUsage, QuotaUsage
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.bounds import untagged_fields
from ottla.protocol.wire.messages import is_flexible, response_class
from ottla.protocol.wire.primitives import Buffer

_MS: Final = 1000
_PERCENT: Final = 100
_HEAD_BYTES: Final = 8
_THROTTLE_BYTES: Final = 4
_SIZE_BYTES: Final = 4
EXCEEDED: Final = ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
"""What a topic gets that may not be created, extended or deleted now."""
_STRICT_SINCE: Final = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""The versions whose clients know that error (KIP-599); before, everything is done, and the client waits."""


class Throttling:
    """The quotas of one broker's clients, and what they use; each broker counts for itself, as in Kafka. `clock_s` is monotonic."""

    def __init__(
        self, quotas: ClientQuotas, clock_s: Callable[[], float], *, windows: tuple[int, int], controller_windows: tuple[int, int]
    ) -> None:
        """`windows`: how many samples, and how many seconds each."""
        self._quotas = quotas
        self._clock_s = clock_s
        samples, window_ms = windows[0], windows[1] * _MS
        self._produced = QuotaUsage(quotas, PRODUCER_BYTE_RATE, samples, window_ms)
        self._consumed = QuotaUsage(quotas, CONSUMER_BYTE_RATE, samples, window_ms)
        self._time = QuotaUsage(quotas, REQUEST_PERCENTAGE, samples, window_ms, throttle_ms_max=window_ms)
        self._mutations = MutationUsage(quotas, CONTROLLER_MUTATION_RATE, controller_windows[0], controller_windows[1] * _MS)
        self._version = -1
        self._is_active = False

    @property
    def is_active(self) -> bool:
        """Whether anyone has a quota of those that are measured here."""
        if self._version != self._quotas.version:
            self._version = self._quotas.version
            kinds = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
            self._is_active = any(map(self._quotas.has, kinds))
        return self._is_active

    def handle(self, request: Request, handler: Callable[[Request], None]) -> None:
        """Call a request's handler and measure it; its response is sent with what that gives."""
        started_s = self._clock_s()
        handled_s: list[float] = []
        request.send = partial(self._send, request, request.send, len(request.buffer) + _SIZE_BYTES, started_s, handled_s)
        handler(request)
        handled_s.append(self._clock_s() - started_s)

    def _send(
        self,
        request: Request,
        send: Callable[[list[Buffer]], None],
        frame_bytes: int,
        started_s: float,
        handled_s: list[float],
        parts: list[Buffer],
    ) -> None:
        now_s = self._clock_s()
        now_ms, who = now_s * _MS, (request.session.principal.name, request.client_id or "")
        throttle_ms = request.throttle_ms
        if request.key == ApiKey.PRODUCE:
            throttle_ms = max(throttle_ms, self._produced.record(*who, frame_bytes, now_ms))
        elif request.key == ApiKey.FETCH:
            throttle_ms = max(throttle_ms, self._consumed.record(*who, sum(map(len, parts)), now_ms))
        # Where the handler has not returned yet, it answers within its call.
        spent_s = handled_s[0] if handled_s else now_s - started_s
        throttle_ms = max(throttle_ms, self._time.record(*who, spent_s * _PERCENT, now_ms))
        request.throttle_ms = throttle_ms
        send(with_throttle_time(request, parts, throttle_ms) if throttle_ms and parts else parts)

    def mutate(self, request: Request, partitions: int) -> bool:
        """Whether a client may create or delete so many partitions now; its response has the time to wait."""
        if not self.is_active:
            return True
        is_strict = request.version >= _STRICT_SINCE.get(ApiKey(request.key), 0)
        who = request.session.principal.name, request.client_id or ""
        is_allowed, throttle_ms = self._mutations.record(*who, partitions, self._clock_s() * _MS, strict=is_strict)
        request.throttle_ms = max(request.throttle_ms, throttle_ms)
        return is_allowed


def with_throttle_time(request: Request, parts: list[Buffer], throttle_ms: int) -> list[Buffer]:
    """A response with its throttle time; as it is, where its version has none."""
    key, version = request.key, request.version
    names = [field.name for field in untagged_fields(response_class(key, version))]
    if "throttle_time" not in names or key == ApiKey.API_VERSIONS:
        return parts
    response = bytearray(b"".join(parts))
    has_tags = is_flexible(key, version)
    at = _HEAD_BYTES + has_tags
    if key == ApiKey.PRODUCE:
        at = len(response) - _THROTTLE_BYTES - has_tags  # its last field
    elif key == ApiKey.OFFSET_DELETE:
        at += 2  # behind the error code
    response[at : at + _THROTTLE_BYTES] = throttle_ms.to_bytes(_THROTTLE_BYTES, "big")
    return [response]
