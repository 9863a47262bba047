"""The shares of all weights that a cause needs for a confidence. `python -m trials day --calibrate` fits them to tests/data/days."""

from typing import Final

HIGH_SHARE: Final = 0.923
MEDIUM_SHARE: Final = 0.675
