"""`python -m trials NAME`: runs one trial; without a name, lists them all.

A trial is a module anywhere in this package that has a NAME; its docstring begins with a sentence for the list, `add_options` adds its
options to a parser, and `run` takes them and the Results to report to.
"""

import argparse
import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from trials.harness.runs import Results

ROOT = Path(__file__).parent


class Trial(NamedTuple):
    """A trial that was found; its module is imported only when it is run."""

    name: str
    module: str
    sentence: str


class TrialModule(Protocol):
    """What the module of a trial has."""

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Add the trial's options."""

    @staticmethod
    def run(options: argparse.Namespace, results: Results) -> None:
        """Run it, and report what was right and what was wrong."""


def find_trials() -> dict[str, Trial]:
    """All trials by their names. Files are read, not imported: some need Spark or client libraries."""
    trials = {}
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for statement in tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id="NAME")], value=ast.Constant(value=str(name))):
                    module = ".".join(("trials", *path.relative_to(ROOT).with_suffix("").parts))
                    trials[name] = Trial(name, module, (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " "))
    return trials


def main(words: Sequence[str]) -> int:
    """Run the trial that the first word names; the exit status is 1 when anything was wrong, 2 when there is no such trial."""
    trials = find_trials()
    if not words or words[0] not in trials:
        lines = "".join(f"  {name:<15} {trials[name].sentence}\n" for name in sorted(trials))
        output = sys.stderr if words and words[0] not in ("-h", "--help") else sys.stdout
        output.write(f"python -m trials NAME [--help] [--seed ...] [options]\n\n{lines}")
        return 2 if output is sys.stderr else 0
    trial = trials[words[0]]
    module = cast(TrialModule, import_module(trial.module))
    parser = argparse.ArgumentParser(prog=f"python -m trials {trial.name}", description=module.__doc__, allow_abbrev=False)
    module.add_options(parser)
    results = Results(trial.name, words[1:])
    module.run(parser.parse_args(words[1:]), results)
    results.close()
    return results.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
