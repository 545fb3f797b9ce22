"""People mark answers by a rubric: which items, the page, the sheet, and how far they and the judge agree.

items.py      what is marked: an answer, all that its model was given, its rubric
drawing.py    which answers of a run: the flagged ones and controls, or a sample
protocol.py   two raters an item, a third where they disagree; an item's score
database.py   RUN/reviews.sqlite, where every save is a revision that stays
page.py       the page on localhost, with page.css and page.js
sheet.py      reviews as CSV, out and in
scores.py     what the marks of an item come to
agreement.py  among people, and between people and judge
"""

__all__ = ["Part", "ReviewItem", "Reviews", "agreement", "human_scores", "parts_of"]

from h2htalk_metric.review.agreement import agreement
from h2htalk_metric.review.database import Reviews
from h2htalk_metric.review.items import Part, ReviewItem, parts_of
from h2htalk_metric.review.scores import human_scores
