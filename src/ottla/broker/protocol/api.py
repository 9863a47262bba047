"""What an API file declares, and an API as one broker serves it.

An API file's `handle` is a function `handle(request, *, groups, scheduler, ...)`: its keyword-only parameters name the collaborators that
it uses. Where a request has many collaborators, or lives longer than one call, `handle` is a class that takes the collaborators by keyword
and has a method `handle(request)`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

from ottla.broker.protocol.request import Request
from ottla.broker.protocol.request_reading import ELEMENTS_MAX

Handler = Callable[[Request], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApi:
    """An API that one broker serves: `handle` has its collaborators."""

    key: int
    versions: range
    handle: Handler
    decodes_itself: bool
    refused: range
    elements_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One Kafka API. `versions` is what ApiVersions advertises; `refused` lists those of them that close the connection all the same.

    A request has at most `elements_max` elements in all its arrays (`request_reading`).
    """

    key: int
    versions: range
    handle: Callable[..., Any]
    decodes_itself: bool = False
    refused: range = range(0)
    elements_max: int = ELEMENTS_MAX

    def bind(self, collaborators: Mapping[str, object]) -> ServedApi:
        """The API with its handler's collaborators, found by name. Raises LookupError for a name that `collaborators` lacks."""
        return ServedApi(
            key=self.key,
            versions=self.versions,
            handle=_bind(self.handle, collaborators),
            decodes_itself=self.decodes_itself,
            refused=self.refused,
            elements_max=self.elements_max,
        )


@cache
def _collaborators(handle: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a handler's keyword-only parameters. The same for each of the brokers that a suite of tests starts."""
    return tuple(each.name for each in inspect.signature(handle).parameters.values() if each.kind is each.KEYWORD_ONLY)


def _bind(handle: Callable[..., Any], collaborators: Mapping[str, object]) -> Handler:
    names = _collaborators(handle)
    missing = [name for name in names if name not in collaborators]
    if missing:
        raise LookupError(f"{handle.__module__} needs {', '.join(missing)}; the collaborators are {', '.join(sorted(collaborators))}")
    used = {name: collaborators[name] for name in names}
    if isinstance(handle, type):
        bound: Handler = handle(**used).handle
        return bound
    assert isinstance(handle, FunctionType)
    # A copy of the function whose keyword-only parameters have the collaborators as defaults: called as fast as the function itself,
    # where functools.partial costs 0.1 us more for each request.
    copy = FunctionType(handle.__code__, handle.__globals__, handle.__name__, handle.__defaults__, handle.__closure__)
    copy.__kwdefaults__ = used
    return copy
