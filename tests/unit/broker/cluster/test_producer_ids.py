"""Producer ids: in blocks, and never twice."""

import pytest

from ottla.core.errors import StorageError


def test_producer_ids_come_in_blocks(api) -> None:
    ids = [api.cluster.producer_ids.next() for _ in range(1001)]
    assert ids == list(range(1001))
    assert api.cluster.cluster_metadata.next_producer_id == 2000


def test_a_block_that_cannot_be_kept_is_not_used(api, monkeypatch) -> None:
    def full(_records) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(api.cluster.metadata_log, "append", full)
        with pytest.raises(StorageError):
            api.cluster.producer_ids.next()
    assert api.cluster.producer_ids.next() == 0
