import pytest

from tests.support.kit.scripted_cluster import ScriptedCluster


@pytest.fixture
def cluster() -> ScriptedCluster:
    """A cluster in memory, which is its own admin client and fetcher."""
    return ScriptedCluster()
