"""Print the row of the results table from lighteval's results, one for each file: python overall.py results_*.json."""

import json
import sys
from pathlib import Path

from h2htalk_metric.stats.aggregate import aggregate

if not sys.argv[1:]:
    sys.exit("name lighteval's results: python overall.py results_*.json")
for file in sys.argv[1:]:
    print(file)
    results = json.loads(Path(file).read_text("utf-8"))["results"]
    found = {name.split("|")[0].removeprefix("h2htalk:"): figures for name, figures in results.items()}
    found = {name: figures for name, figures in found.items() if name not in ("all", "_average")}
    for column, value in aggregate({name: 100 * figures["composite"] for name, figures in found.items()}).items():
        print(f"{column:28}", "-" if value is None else f"{value:.2f}")
