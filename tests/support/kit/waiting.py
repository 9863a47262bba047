"""Ways to wait that tests of Ottla itself use besides `ottla.testing.wait_until`."""

import asyncio
import time
from collections.abc import Callable


def rest() -> None:
    """The pause between two checks that ask a broker or Spark: a hundred of them a second would keep a core busy. For `doing`."""
    time.sleep(0.1)


async def wait_until_async(condition: Callable[[], object], what: str, *, seconds: float = 60) -> None:
    """`wait_until` for coroutines: the event loop runs between two checks."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        await asyncio.sleep(0.001)
