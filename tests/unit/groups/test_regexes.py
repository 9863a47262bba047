"""The lookup of topics of regular expressions, in steps."""

from typing import Any

import pytest

from ottla.groups.consumer.regexes import RegexResolution


class Context:
    """What a step needs of a command's context."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.conformance("TopicRegexResolverTest.testBasicMatching", "TopicRegexResolverTest.testAuthorizationFiltering")
def test_whole_names_match_of_topics_that_may_be_described() -> None:
    context: Any = Context()
    names, regexes = ("foo", "foobar", "bar", "secret-bar"), ["foo.*", "bar", "no", ".*bar"]
    matched: dict[str, list[str]] = {"foo.*": ["foo", "foobar"], "bar": ["bar"], "no": [], ".*bar": ["foobar", "bar", "secret-bar"]}
    resolution = RegexResolution(names=names, regexes=[*regexes], version=1, started_at_ms=0, may_describe=None)
    assert not resolution.step(context, "g")
    assert resolution.found == matched
    described = RegexResolution(
        names=names, regexes=[*regexes], version=1, started_at_ms=0, may_describe=lambda name: not name.startswith("secret")
    )
    assert not described.step(context, "g")
    assert described.found == {**matched, ".*bar": ["foobar", "bar"]}


@pytest.mark.conformance("TopicRegexResolverTest.testInvalidRegexIgnored")
def test_an_expression_that_is_none_is_left_out() -> None:
    context: Any = Context()
    resolution = RegexResolution(names=("a", "b"), regexes=["a.*", "["], version=1, started_at_ms=0, may_describe=None)
    assert not resolution.step(context, "g")
    assert resolution.found == {"a.*": ["a"]}
    assert context.lines == ["[GroupId g] Couldn't parse regular expression '[' due to `missing closing ]`. Ignoring."]


def test_slow_expressions_take_several_steps() -> None:
    names = tuple("abc" * 60 + str(number) for number in range(5))
    resolution = RegexResolution(names=names, regexes=["(a?b?c?){990}.*"] * 2, version=1, started_at_ms=0, may_describe=None)
    context: Any = Context()
    steps = 1
    while resolution.step(context, "g"):
        steps += 1
    assert steps >= 10
    assert resolution.found == {"(a?b?c?){990}.*": list(names)}
