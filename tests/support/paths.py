"""Folders that tests read."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
