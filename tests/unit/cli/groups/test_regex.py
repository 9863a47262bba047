"""`ottla groups --validate-regex`."""

import json
from typing import Any

import pytest


@pytest.mark.conformance("ConsumerGroupCommandTest.testValidateRegexCommandWithValidRegex")
def test_a_valid_one(groups: Any) -> None:
    assert groups.run("--validate-regex", "foo.*") == (0, "The regular expression `foo.*` is valid.\n", "")


@pytest.mark.conformance("ConsumerGroupCommandTest.testValidateRegexCommandWithInvalidRegex")
def test_an_invalid_one(groups: Any) -> None:
    assert groups.run("--validate-regex", "[foo.*") == (0, "The regular expression `[foo.*` is invalid: missing closing ].\n", "")
    ran = groups.run("--validate-regex", "[foo.*", "--json")
    assert (ran.status, json.loads(ran.out)) == (0, {"regex": "[foo.*", "valid": False, "reason": "missing closing ]"})
