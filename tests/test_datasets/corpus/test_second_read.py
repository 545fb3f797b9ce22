"""The second read: the drawn records, all of them, with marks that hold."""

from collections import defaultdict

from h2htalk_datasets import TASKS, load
from h2htalk_datasets.corpus.second_read import drawn, read_reviews


def test_every_relationship_was_read_again_and_stands_at_four_or_more():
    ids = defaultdict(list)
    for task in TASKS:
        for row in load(task):
            ids[row["relationship"]].append(row["id"])
    reviews = {review.id: review for review in read_reviews()}
    expected = {identity for relationship, mine in ids.items() for identity in drawn(relationship, mine)}
    assert set(reviews) == expected
    for relationship, mine in ids.items():
        marks = [reviews[identity].average for identity in drawn(relationship, mine)]
        assert sum(marks) / len(marks) >= 4, relationship


def test_marks_are_marks():
    reviews = read_reviews()
    assert all(1 <= mark <= 5 for review in reviews for mark in review.marks)
    assert all(1 <= review.before <= 5 for review in reviews)
    assert len({review.marks for review in reviews}) > 5
