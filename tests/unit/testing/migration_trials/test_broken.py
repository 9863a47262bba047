"""Each defect breaks a copy, and the rest of it stays as it is; test_oracle.py has what the oracle says."""

import pytest

from ottla.testing.migration_trials.broken import DEFECTS
from ottla.testing.migration_trials.records import RecordMaker, copied


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_touches_few_records(defect: str):
    made = RecordMaker(1, partitions=4, keys=60).make(400)
    right = [copied(each, "flights", each.partition % 2) for each in made]
    wrong = DEFECTS[defect](list(right))
    assert wrong != right
    assert len(set(right) - set(wrong)) <= 10
    assert abs(len(right) - len(wrong)) <= 1
