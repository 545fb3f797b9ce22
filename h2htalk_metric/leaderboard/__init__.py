"""The leaderboard: a Gradio app for a Space or for ``h2htalk leaderboard``, and the submissions that it shows.

submission.py       the file format of a submission; from_run.py makes one from a run folder
validation.py       checks a submission and computes its row (row.py)
storage.py          the folder of a board: submissions, and rows.jsonl (row_file.py); hub_repository.py stores both
board.py            places, ties, tables and CSV; paper.py has the paper's figures
page.py             the app, with table.html, table.js and board.css; comparison.py, run_page.py
app.py              entry point of the Space
"""
