"""Significance groups: runs that share a letter do not differ (compact letter display).

The algorithm is insert and absorb: Piepho (2004), "An Algorithm for a Letter-Based Representation of All-Pairwise
Comparisons".
"""

__all__ = ["letter_groups"]

from collections.abc import Collection, Sequence

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def letter_groups(names: Sequence[str], different: Collection[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Give names letters so that two of them share a letter exactly if they are not different.

    Args:
        names: in the order of the letters, for instance best first.
        different: pairs of names that differ significantly, in either order.

    Returns:
        Letters by name: a to z, then aa, ab and so on.

    """
    groups: list[set[str]] = [set(names)]
    for first, second in different:
        split = [group for group in groups if {first, second} <= group]
        parts = [group - {name} for group in split for name in (first, second)]
        candidates = [group for group in groups if group not in split] + parts
        groups = []
        for group in sorted(candidates, key=len, reverse=True):
            if not any(group <= larger for larger in groups):
                groups.append(group)
    place = {name: number for number, name in enumerate(names)}
    groups.sort(key=lambda group: sorted(place[name] for name in group))
    return {name: tuple(_letter(number) for number, group in enumerate(groups) if name in group) for name in names}


def _letter(number: int) -> str:
    prefix = _ALPHABET[number // len(_ALPHABET) - 1] if number >= len(_ALPHABET) else ""
    return prefix + _ALPHABET[number % len(_ALPHABET)]
