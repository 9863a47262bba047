"""InitProducerId: ids that no other producer has had."""

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey


def ask(api, version: int = 4, transactional_id: str | None = None, producer_id: int = -1, epoch: int = -1):
    return api.ask(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=transactional_id,
        transaction_timeout=60000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


@pytest.mark.parametrize("version", range(6))
@pytest.mark.conformance("TransactionCoordinatorTest.shouldAcceptInitPidAndReturnNextPidWhenTransactionalIdIsNull")
def test_every_version_gives_new_ids(api, version: int) -> None:
    first, second = ask(api, version), ask(api, version)
    assert (first.error_code, first.producer_epoch, second.producer_id) == (0, 0, first.producer_id + 1)


def test_ids_are_never_given_again_after_a_restart(make_api) -> None:
    first = make_api()
    given = {ask(first).producer_id for _ in range(1500)}
    assert len(given) == 1500
    assert ask(make_api(files=first.files)).producer_id not in given


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_what_is_refused(api, producer_id: int, epoch: int) -> None:
    assert ask(api, 4, None, producer_id, epoch).error_code == ErrorCode.INVALID_REQUEST


def test_an_empty_transactional_id_is_refused(api) -> None:
    assert ask(api, 4, "").error_code == ErrorCode.INVALID_REQUEST


def test_a_transactional_id_has_one_producer_id_and_rising_epochs(api) -> None:
    given = [ask(api, 4, "t") for _ in range(3)]
    assert [(answer.error_code, answer.producer_epoch) for answer in given] == [(0, 0), (0, 1), (0, 2)]
    assert len({answer.producer_id for answer in given}) == 1
