"""The docs say what the code does: every command, API, setting and pipeline is in them, and the generated pages are up to date."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.api_registry import APIS
from ottla.broker.monitoring.group_metrics import alias_metrics, group_metrics
from ottla.broker.monitoring.group_snapshot import GroupsSnapshot
from ottla.broker.monitoring.transaction_metrics import TransactionsSnapshot, transaction_metrics
from ottla.config import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from ottla.protocol.wire.messages import versions_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def names(folder: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / "src" / "ottla" / folder).glob("*.py") if not path.stem.startswith("_"))


def test_generated_pages_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "scripts" / "make_docs.py"), str(tmp_path)], check=True)
    for made in sorted(tmp_path.glob("*.md")):
        assert made.read_text() == (DOCS / made.name).read_text(), f"docs/{made.name} is out of date: run `make docs`"


@pytest.mark.parametrize("command", names("cli/commands"))
def test_every_command_is_documented(command: str) -> None:
    assert f"## ottla {command.replace('_', '-')}" in (DOCS / "cli.md").read_text()


def test_help_has_no_marks_of_click() -> None:
    assert "\\b " not in (DOCS / "cli.md").read_text(), "a raw docstring keeps click's mark for text that is not wrapped"


@pytest.mark.parametrize("api", names("broker/apis"))
def test_every_api_is_documented(api: str) -> None:
    title = "".join(part.capitalize() for part in api.split("_"))
    assert f"| {title} |" in (DOCS / "apis.md").read_text()


@pytest.mark.parametrize("setting", sorted({*BROKER_SETTINGS, *GROUP_SETTINGS, *TOPIC_SETTINGS}))
def test_every_setting_is_documented(setting: str) -> None:
    assert f"| `{setting}` |" in (DOCS / "settings.md").read_text()


@pytest.mark.parametrize("pipeline", names("spark/pipelines"))
def test_every_pipeline_is_documented(pipeline: str) -> None:
    assert f"`{pipeline}`" in (DOCS / "spark.md").read_text()


def test_every_metric_is_documented() -> None:
    documented = (DOCS / "metrics.md").read_text() + (DOCS / "cleaner.md").read_text()
    transactions = transaction_metrics(TransactionsSnapshot(at_ms=0), 0)
    for metric in (*group_metrics(GroupsSnapshot(), 0), *alias_metrics(GroupsSnapshot(), ()), *transactions):
        name = metric.name + ("_total" if metric.type == "counter" else "")
        manager = "kafka_coordinator_group_groupmetadatamanager"
        shown = name.removeprefix(manager) if name.startswith(manager) and not name.endswith("numgroups") else name
        assert f"`{shown}" in documented, name


def test_versions_that_are_not_served_are_listed_as_skipped() -> None:
    skipped = (DOCS / "skipped.md").read_text()
    for api in APIS.values():
        for version in versions_of(api.key):
            if version not in api.versions:
                assert re.search(rf"\| {api.key} \|.*\b{version}\b", skipped), f"API {api.key} v{version} is missing in docs/skipped.md"


def test_links_inside_the_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "GLOSSARY.md", "HACKING.md"])
def test_source_files_that_a_page_names_exist(page: str) -> None:
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", (ROOT / "docs" / page).read_text()))
    assert named, "the pattern finds nothing"
    assert [path for path in sorted(named) if not ((ROOT / "src" / "ottla" / path).exists() or (ROOT / path).exists())] == []


def test_every_change_note_names_its_issue() -> None:
    for note in (ROOT / "changes").glob("*.md"):
        assert re.fullmatch(r"\d+\.(feature|fix|docs|change)\.md", note.name) or note.name == "README.md", note.name


def test_every_test_of_apache_kafkas_is_shown_here_or_left_out_with_a_reason() -> None:
    """And every name that a scenario or a marker says is one of them."""
    spec = importlib.util.spec_from_file_location("conformance", ROOT / "scripts" / "conformance.py")
    assert spec is not None
    assert spec.loader is not None
    conformance = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = conformance
    spec.loader.exec_module(conformance)
    assert conformance.load().problems == []


def test_the_recipes_of_the_pages_about_tests_are_tests() -> None:
    """Each of their blocks of Python stands in a test file as it is."""
    pages = "".join((DOCS / name).read_text() for name in ("testing.md", "transactions.md"))
    recipes = re.findall(r"```python\n(.*?)```", pages, re.DOTALL)
    folders = [ROOT / "tests" / "examples", ROOT / "tests" / "applications" / "broken"]
    files = [*(path for folder in folders for path in folder.glob("test_*.py")), ROOT / "tests" / "spark" / "test_testing_recipe.py"]
    tests = [path.read_text() for path in files]
    assert recipes, "the pattern finds nothing"
    assert [recipe for recipe in recipes if not any(recipe in test for test in tests)] == []


def test_every_import_that_the_docs_show_works() -> None:
    """One process: each import alone would start Python some sixty times."""
    line = re.compile(r"^ *(?:from ottla[\w.]* import [\w, ]+|import ottla[\w.]*)$", re.MULTILINE)
    shown = {text.strip() for page in (ROOT / "README.md", *DOCS.glob("*.md")) for text in line.findall(page.read_text())}
    former = set(re.findall(r"`(from ottla[\w.]* import [\w, ]+)`", (DOCS / "clients.md").read_text().replace("\n", " ")))
    assert len(shown) > 10
    assert len(former) == 4
    subprocess.run([sys.executable, "-c", "\n".join(sorted(shown | former))], check=True)
