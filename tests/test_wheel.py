"""The wheel is small and complete."""

import os
import sys
import zipfile

import pytest
from helpers.commands import run
from helpers.paths import ROOT


@pytest.mark.slow
def test_the_wheel_is_small_and_works_outside_the_checkout(tmp_path):
    root = str(ROOT)
    built = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), root)
    assert built.returncode == 0, built.stderr
    wheel = next(tmp_path.glob("h2htalk-*.whl"))
    # 10 MB of compressed records in two languages, arcs, sources and figures, and the code: more means that something
    # else got in.
    assert wheel.stat().st_size < 12e6
    unpacked = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(unpacked)
    code = (
        "import h2htalk_datasets as d; assert str(d.path()).startswith('.') or 'installed' in str(d.path());"
        "row = d.load('ItineraryMiddle')[0]; assert d.render(row) == row['messages'];"
        "from h2htalk_datasets.corpus.sources import source_files; assert len(source_files()) == 50"
    )
    used = run(sys.executable, "-c", code, cwd=unpacked, env=os.environ | {"PYTHONPATH": str(unpacked)})
    assert used.returncode == 0, used.stderr
