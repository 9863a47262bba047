"""The size and shape of the tree: source in the wheel, tests, trials, import contracts. `python scripts/count_structure.py [ROOT]`."""

import sys
import tomllib
from pathlib import Path


def count(folder: Path) -> tuple[int, int]:
    """Python files below a folder, and their lines."""
    files = sorted(folder.rglob("*.py"))
    return len(files), sum(len(path.read_text().splitlines()) for path in files)


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    for name, folder in (("wheel", "src"), ("tests", "tests"), ("trials", "trials")):
        files, lines = count(root / folder)
        sys.stdout.write(f"{name:10} {files:6,} files {lines:8,} lines\n")
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    sys.stdout.write(f"{'contracts':10} {len(contracts):6,}\n")


if __name__ == "__main__":
    main()
