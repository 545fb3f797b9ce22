"""People mark answers by a rubric: which items, the page, the sheet, and how far they and the judge agree.

review_item.py   what is marked: an answer, what its model was sent, its rubric
sampling.py      which answers of a run: flagged ones and controls by config and J, or a random sample
estimate.py      what the scores of a sample say about all judged answers
protocol.py      two raters per item, a third if they disagree; an item's score
marks.py         checks of names, marks and comments
reviews.py       RUN/reviews.jsonl, to which every save is appended (shared_log.py)
upgrade.py       conversion of RUN/reviews.sqlite
rating_page.py   the page on localhost, with rating_page.css and rating_page.js
sheet.py         reviews as CSV: export and import
scores.py        what the marks of an item come to
agreement.py     among people, and between people and judge
"""

__all__ = ["Part", "ReviewItem", "Reviews", "agreement", "human_scores", "parts_of"]

from h2htalk_metric.review.agreement import agreement
from h2htalk_metric.review.review_item import Part, ReviewItem, parts_of
from h2htalk_metric.review.reviews import Reviews
from h2htalk_metric.review.scores import human_scores
