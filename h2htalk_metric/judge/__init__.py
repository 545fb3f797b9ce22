"""The judge: a model scores answers by a rubric, and its scores join the composite (Eq. 3, 4).

rubric.py        criteria and levels, in rubrics/LANGUAGE/NAME.yaml
sanitize.py      untrusted text, made safe for a prompt
prompt.py        the judging prompt
verdict.py       the JSON that a judge replies with
structured.py    requests with a JSON schema
budget.py        usage, prices and a cost limit
judge_items.py   the answers of a run that are judged
judge.py         one judge, one answer
judgement.py     RUN/judgements.jsonl
panel.py         RUN/judge.json
judge_run.py     all answers of a run
blend.py         J from S and the judge's score
scale.py         how S enters J: as in the paper, or relative to a ceiling
ceilings.py      the ceilings that ship with the package
flags.py         how many answers are flagged, and why
panel_scores.py  the panel's scores and J as a table
judged_run.py    the same with people's scores
ratings.py       scores of probe runs, by judges or by people
drift.py         fixed answers: has a judge drifted?
"""
