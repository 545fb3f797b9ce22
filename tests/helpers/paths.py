"""Where things are in a checkout."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TEST_DATA = ROOT / "tests" / "data"
PROGRAMS = ROOT / "tests" / "helpers" / "programs"
SHARED = ROOT.parent / "shared"
