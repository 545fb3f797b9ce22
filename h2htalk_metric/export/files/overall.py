"""Print the row of the results table for each of lighteval's results files: python overall.py results_*.json."""

import json
import sys
from pathlib import Path

from h2htalk_metric.stats.aggregate import aggregate

if not sys.argv[1:]:
    sys.exit("name lighteval's results files: python overall.py results_*.json")
for file in sys.argv[1:]:
    print(file)
    results = json.loads(Path(file).read_text("utf-8"))["results"]
    by_task = {name.split("|")[0].removeprefix("h2htalk:"): metrics for name, metrics in results.items()}
    scores = {task: 100 * m["composite"] for task, m in by_task.items() if task not in ("all", "_average")}
    for column, value in aggregate(scores).items():
        print(f"{column:28}", "-" if value is None else f"{value:.2f}")
