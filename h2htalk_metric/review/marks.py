"""Checks of what a rater writes: name, marks, comment."""

__all__ = ["check_comment", "check_marks", "check_name"]

import unicodedata
from collections.abc import Mapping

from h2htalk_datasets.errors import H2HTalkError
from h2htalk_metric.judge.rubric import Rubric

_NAME_LENGTH, _COMMENT_LENGTH = 40, 4000


def check_name(name: str) -> str:
    """A rater's name without superfluous white space.

    Raises:
        H2HTalkError: it is empty, too long, or has characters that do not print.

    """
    clean = unicodedata.normalize("NFC", " ".join(name.split()))
    if not 0 < len(clean) <= _NAME_LENGTH or not clean.isprintable():
        raise H2HTalkError(f"a rater's name has 1 to {_NAME_LENGTH} printable characters; got {name[:60]!r}")
    return clean


def check_marks(rubric: Rubric, marks: Mapping[str, int], *, partly: bool = False) -> dict[str, int]:
    """Marks in the order of the rubric.

    Args:
        rubric: of the item.
        marks: level per criterion.
        partly: allow criteria without a mark.

    Raises:
        H2HTalkError: a criterion is unknown or has no mark, or a mark is not one of its levels; names each.

    """
    errors = [f"{name}: not a criterion of the rubric" for name in marks.keys() - {c.name for c in rubric.criteria}]
    for criterion in rubric.criteria:
        mark = marks.get(criterion.name)
        if mark is None and not partly:
            errors.append(f"{criterion.name}: no mark")
        elif mark is not None and (type(mark) is not int or mark not in criterion.levels):
            levels = ", ".join(map(str, criterion.levels))
            errors.append(f"{criterion.name}: {str(mark)[:20]!r} is not one of the levels {levels}")
    if errors:
        raise H2HTalkError("; ".join(errors))
    return {criterion.name: marks[criterion.name] for criterion in rubric.criteria if criterion.name in marks}


def check_comment(comment: str) -> str:
    """A comment without the white space around it.

    Raises:
        H2HTalkError: it is not a text, or too long.

    """
    if not isinstance(comment, str) or len(comment) > _COMMENT_LENGTH:
        raise H2HTalkError(f"a comment is a text of at most {_COMMENT_LENGTH} characters")
    return comment.strip()
