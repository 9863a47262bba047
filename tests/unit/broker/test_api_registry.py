"""Every API file is found, and its handler's collaborators exist."""

import pytest

from ottla.broker.api_registry import APIS, SERVED_VERSIONS, bind_apis


def test_every_api_finds_its_collaborators(api) -> None:
    served = bind_apis(api.cluster.collaborators(api.node))
    assert list(served) == list(APIS) == sorted(APIS)


def test_every_collaborator_is_used(api) -> None:
    collaborators = dict(api.cluster.collaborators(api.node))
    for name in collaborators:
        with pytest.raises(LookupError, match=f"needs {name}"):
            bind_apis({other: each for other, each in collaborators.items() if other != name})


def test_the_versions_that_are_advertised() -> None:
    assert (0, 0, 13) in SERVED_VERSIONS
    assert [key for key, _, _ in SERVED_VERSIONS] == list(APIS)
