"""The APIs that brokers serve: one for each file of `apis`."""

from collections.abc import Mapping
from typing import Final

from ottla.broker import apis
from ottla.broker.network.request import Api, ServedApi
from ottla.discovery import drop_ins

APIS: Final[Mapping[int, Api]] = {api.key: api for api in sorted(drop_ins(apis, "API", Api).values(), key=lambda api: api.key)}
"""By key. Found when the broker's code is loaded: later there may be no file descriptor left to find them with."""
SERVED_VERSIONS: Final = tuple((api.key, api.versions.start, api.versions.stop - 1) for api in APIS.values())
"""Key, lowest and highest version of each, as ApiVersions advertises them."""


def bind_apis(collaborators: Mapping[str, object]) -> Mapping[int, ServedApi]:
    """The APIs of one broker: each handler has the collaborators that its parameters name. Raises LookupError for an unknown name."""
    return {key: api.bind(collaborators) for key, api in APIS.items()}
