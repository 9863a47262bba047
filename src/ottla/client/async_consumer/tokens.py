"""Tokens of a provider as aiokafka has them (`AbstractTokenProvider`): a coroutine of the event loop, for connections of other threads."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from ottla.core.security.oauthbearer import parse_jwt

TOKEN_SECONDS_MAX: Final = 30.0
OPAQUE_SECONDS: Final = 300.0
"""How long a token is used that does not say when it expires: the provider is asked again before that."""


class ProviderTokens:
    """An `oauth_cb` that asks `provider` in `loop`; it must be called in another thread. `clock_ns`: since 1970."""

    def __init__(self, provider: Any, loop: asyncio.AbstractEventLoop, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._provider = provider
        self._loop = loop
        self._clock_ns = clock_ns

    def __call__(self, config: str) -> tuple[str, float, str, dict[str, str]]:
        """A token, its expiry, and what is sent with it. Raises what the provider raises, or TimeoutError."""
        asked = asyncio.run_coroutine_threadsafe(self._provider.token(), self._loop)
        try:
            token = str(asked.result(TOKEN_SECONDS_MAX))
        finally:
            asked.cancel()
        extensions = {str(key): str(value) for key, value in self._provider.extensions().items()}
        try:
            parsed = parse_jwt(token)
        except ValueError:
            return token, self._clock_ns() / 1e9 + OPAQUE_SECONDS, "", extensions
        return token, parsed.expires_at, parsed.principal, extensions
