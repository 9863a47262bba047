"""Tokens of aiokafka's providers, asked for in the event loop by another thread."""

import asyncio
import threading
from typing import Any

import pytest

from ottla.client.async_consumer.tokens import OPAQUE_SECONDS, ProviderTokens
from ottla.client.security.tokens import UnsecuredTokens


class Provider:
    def __init__(self, token: Any) -> None:
        self._token = token
        self.threads: list[threading.Thread] = []

    async def token(self) -> str:
        await asyncio.sleep(0)
        self.threads.append(threading.current_thread())
        if isinstance(self._token, Exception):
            raise self._token
        return str(self._token)

    def extensions(self) -> dict[str, str]:
        return {"traceId": "1"}


def ask(provider: Provider) -> Any:
    async def run() -> Any:
        tokens = ProviderTokens(provider, asyncio.get_running_loop(), clock_ns=lambda: 1_000_000_000_000)
        return await asyncio.to_thread(tokens, "")

    return asyncio.run(run())


def test_a_signed_token_says_when_it_expires() -> None:
    provider = Provider(UnsecuredTokens("alice", (("sub", "alice"),), life_seconds=60).fetch(2_000).value)
    value, expires_at, principal, extensions = ask(provider)
    assert (expires_at, principal, extensions) == (2_060, "alice", {"traceId": "1"})
    assert value.count(".") == 2
    assert provider.threads == [threading.current_thread()], "the loop's"


def test_another_token_is_used_for_a_while() -> None:
    assert ask(Provider("opaque")) == ("opaque", 1_000 + OPAQUE_SECONDS, "", {"traceId": "1"})


def test_what_a_provider_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="the identity provider is down"):
        ask(Provider(RuntimeError("the identity provider is down")))
