"""Bounds on connections: of one address, of one broker, and of the process's file descriptors. Kafka's ConnectionQuotas.

Descriptors that connections take are missing for the storage's files, for modules and other uses: a connection that is accepted and then
closed costs its client a retry; a log that cannot be opened is offline for all clients. The server closes what is refused here.
"""

import asyncio
import resource
import socket
from collections.abc import Callable, Mapping
from errno import EMFILE, ENFILE
from ipaddress import ip_address
from logging import Logger, getLogger
from typing import Any, Final

from ottla.broker.network.request import java_address
from ottla.config import ConfigError, ConfigSource
from ottla.config.connection_overrides import connection_overrides
from ottla.metadata.client_quotas import CONNECTION_CREATION_RATE, ClientQuotas
from ottla.metadata.quota_usage import COUNTED_MAX, Rate
from ottla.metadata.resource_configs import ResourceConfigs

PERIOD_S: Final = 60.0


class RepeatedWarning:
    """One kind of line: `lines` of them a minute; the others are counted. Time is the event loop's."""

    def __init__(self, log: Logger, *, lines: int = 1) -> None:
        self._log = log
        self._lines = lines
        self._left = 0
        self._again_s = float("-inf")
        self._left_out = 0

    def warning(self, now_s: float, message: str) -> None:
        """Write the line, or counts it."""
        if now_s >= self._again_s:
            self._again_s, self._left = now_s + PERIOD_S, self._lines
        if not self._left:
            self._left_out += 1
            return
        more = f" ({self._left_out} more like this since the last such line)" if self._left_out else ""
        self._left -= 1
        self._left_out = 0
        self._log.warning("%s%s", message, more)


log = getLogger(__name__)

OTHERS_MIN: Final = 32
"""For imports, workers, the metrics' listener and the like; an eighth of all where that is more."""

RAISED_MAX: Final = 1024 * 1024


def descriptor_limit() -> int | None:
    """The limit of this process (`ulimit -n`), None when there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raise the soft limit of this process to the hard one, as the JVM does; for a process that is only a broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RAISED_MAX if hard == resource.RLIM_INFINITY else min(hard, RAISED_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError) as error:  # macOS has a lower bound than its hard limit
            log.info("the limit of open files stays %d: %s", soft, error)


def check_limit(limit: int | None) -> None:
    """Raise ConfigError when so few descriptors are not enough for a broker without a client."""
    if limit is not None and limit < OTHERS_MIN:
        raise ConfigError(
            f"this process may have {limit} files open, and a broker needs {OTHERS_MIN} at least: raise the limit (ulimit -n)"
        )


def connections_max(limit: int, files_max: int) -> int:
    """How many of `limit` descriptors connections may have when the storage may have `files_max` files open; at least a quarter."""
    return max(limit - files_max - max(OTHERS_MIN, limit // 8), limit // 4, 1)


def limit_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """A loop of asyncio's tries once a second to accept, and prints a traceback each time: here it is a line a minute."""
    lines = RepeatedWarning(log)

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (EMFILE, ENFILE):
            lines.warning(loop.time(), f"connections are not accepted: {error}; raise the limit (ulimit -n)")
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


class Descriptors:
    """The connections of all the process's brokers, and their bound."""

    def __init__(self, limit: int | None, files_max: int) -> None:
        self.limit = limit
        self.connections = 0
        self.connections_max = None if limit is None else connections_max(limit, files_max)
        self._is_exhausted = False

    @property
    def are_left(self) -> bool:
        """Whether one more connection may be taken."""
        return self.connections_max is None or self.connections < self.connections_max

    def check(self, open_one: Callable[[], socket.socket] = socket.socket) -> None:
        """Log once when the process has no descriptor left, for whatever reason, and once when it has some again."""
        try:
            open_one().close()
        except OSError as error:
            if error.errno not in (EMFILE, ENFILE):
                raise
            if not self._is_exhausted:
                log.error("no file descriptor is left: new connections are closed, files cannot be opened; raise the limit (ulimit -n)")
            self._is_exhausted = True
            return
        if self._is_exhausted:
            log.warning("file descriptors are free again: connections are accepted")
        self._is_exhausted = False


_OVERRIDES: Final = "max.connections.per.ip.overrides"


class ConnectionLimits:
    """Read at each connection. Connections that are open stay open when a limit becomes lower, as in Kafka."""

    def __init__(self, configs: ResourceConfigs) -> None:
        self._configs = configs
        self._text = ""
        self._overrides: Mapping[str, int] = {}
        self._resolving: asyncio.Task[None] | None = None

    @property
    def connections_max(self) -> int:
        """Of one broker."""
        return self._configs.broker_number("max.connections")

    def of_address(self, address: str) -> int:
        """Of one address."""
        found = self._overrides.get(address)
        return self._configs.broker_number("max.connections.per.ip") if found is None else found

    def load(self) -> None:
        """Read the overrides, at start. Raises ConfigError for a host name in `--config` that cannot be resolved."""
        self._text, source = self._configs.broker_value(_OVERRIDES)
        try:
            self._overrides = _by_address(connection_overrides(self._text))
        except ConfigError as error:
            if source is ConfigSource.STATIC_BROKER:
                raise
            log.warning("%s; the overrides have no effect", error)

    def settings_changed(self) -> None:
        """Read the overrides again; host names are resolved in another thread, and the old overrides apply until then."""
        text, _ = self._configs.broker_value(_OVERRIDES)
        if text != self._text:
            self._text = text
            self._resolving = asyncio.get_running_loop().create_task(self._resolve(text))

    async def _resolve(self, text: str) -> None:
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, _by_address, connection_overrides(text))
        except ConfigError as error:
            log.warning("%s; the overrides before this change apply", error)
        else:
            if text == self._text:
                self._overrides = found


def _by_address(overrides: Mapping[str, int]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for host, count in overrides.items():
        try:
            found[str(ip_address(host))] = count
            continue
        except ValueError:
            pass
        try:
            addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
        except OSError as error:
            raise ConfigError(f"{_OVERRIDES}: the host {host} cannot be resolved: {error}") from error
        found |= dict.fromkeys(addresses, count)
    return found


class ConnectionQuotas:
    """The connections of one broker, by the peer's address as the socket has it ("" when it has none)."""

    def __init__(
        self,
        limits: ConnectionLimits,
        descriptors: Descriptors,
        quotas: ClientQuotas | None = None,
        windows: tuple[int, int] = (11, 1),
    ) -> None:
        """`windows`: how many samples rates of connections are measured in, and how many seconds each."""
        self._limits = limits
        self._quotas = quotas or ClientQuotas()
        self._windows = windows
        self._rates: dict[str, Rate] = {}
        self._descriptors = descriptors
        self._connections = 0
        self._by_address: dict[str, int] = {}
        self._of_broker, self._of_address, self._of_process = RepeatedWarning(log), RepeatedWarning(log), RepeatedWarning(log)
        self._of_rate = RepeatedWarning(log)

    def admit(self, address: str, now_s: float) -> bool:
        """Counts a new connection, unless there are too many; that is logged."""
        descriptors, of_address = self._descriptors, self._by_address.get(address, 0)
        of_address_max, connections_max = self._limits.of_address(address), self._limits.connections_max
        if of_address >= of_address_max:
            self._of_address.warning(
                now_s,
                f"Rejected connection from {address}, address already has the configured maximum of {of_address_max} connections"
                " (max.connections.per.ip)",
            )
        elif self._connections >= connections_max:
            self._of_broker.warning(
                now_s,
                f"Rejected connection from {address}, the broker has the configured maximum of {connections_max} connections"
                " (max.connections)",
            )
        elif not descriptors.are_left:
            self._of_process.warning(
                now_s,
                f"Rejected connection from {address}: {descriptors.connections} connections are open, and the other file descriptors of"
                f" {descriptors.limit} are kept for files; raise the limit (ulimit -n)",
            )
        elif self._quotas.has(CONNECTION_CREATION_RATE) and not self._has_rate(address, now_s):
            self._of_rate.warning(now_s, f"Rejected connection from {address}, it makes more than {CONNECTION_CREATION_RATE} allows")
        else:
            self._connections += 1
            descriptors.connections += 1
            self._by_address[address] = of_address + 1
            return True
        return False

    def _has_rate(self, address: str, now_s: float) -> bool:
        """Whether an address may make one more connection now; one that may not is not counted."""
        quota = self._quotas.of_address(java_address(address)[1:]) if address else None
        if quota is None:
            return True
        samples, window_s = self._windows
        rate = self._rates.pop(address, None) or Rate(samples, window_s * 1000)
        if len(self._rates) >= COUNTED_MAX:
            del self._rates[next(iter(self._rates))]
        self._rates[address] = rate
        now_ms = now_s * 1000
        found, seconds = rate.measure(now_ms)
        if found + 1 / seconds > quota:
            return False
        rate.record(1, now_ms)
        return True

    def leave(self, address: str) -> None:
        """A connection that was admitted has ended."""
        self._connections -= 1
        self._descriptors.connections -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
