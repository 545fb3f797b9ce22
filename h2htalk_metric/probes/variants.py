"""The variants of the persona that ``h2htalk probe safety`` compares."""

__all__ = ["BASELINE", "OWN", "VARIANTS", "Variant", "select_variants", "variant_label"]

from typing import NamedTuple

from h2htalk_datasets.errors import H2HTalkError, did_you_mean
from h2htalk_datasets.prompts import SAP

BASELINE = "with"
"""The variant that the others are tested against."""

OWN = "own"
"""The variant with the user's own text, ``--persona-text``."""


class Variant(NamedTuple):
    """One variant of the persona.

    Attributes:
        label: for people.
        sap: the principles, as a value of ``--sap``.
        text: what follows them: a shipped text (see :mod:`h2htalk_datasets.probes.persona_texts`), or None.

    """

    label: str
    sap: str
    text: str | None = None


VARIANTS: dict[str, Variant] = {
    BASELINE: Variant("with SAP", "all"),
    "without": Variant("without SAP", "none"),
    **{
        f"no_{removed}": Variant(f"without {removed}", ",".join(name for name in SAP if name != removed))
        for removed in SAP
    },
    "neutral": Variant("neutral text", "none", "neutral"),
    "short-rules": Variant("short rules", "none", "short-rules"),
    "engagement": Variant("SAP + engagement", "all", "engagement"),
    "engagement-only": Variant("engagement only", "none", "engagement"),
    OWN: Variant("own text", "none"),
}
"""All variants by name, in the order of the tables."""


def select_variants(names: str, *, own: bool = False) -> list[str]:
    """The variants that ``--variants`` names, in the order of :data:`VARIANTS`.

    Args:
        names: separated by commas, or ``all``.
        own: whether there is a text of the user's own; it is added to the selection.

    Raises:
        H2HTalkError: a name is unknown, or there is none.

    """
    shipped = [name for name in VARIANTS if name != OWN]
    selected = shipped if names == "all" else [name.strip() for name in names.split(",") if name.strip()]
    for name in selected:
        if name not in VARIANTS:
            raise H2HTalkError(
                f"unknown variant {name!r}.{did_you_mean(name, VARIANTS)} They are: {', '.join(VARIANTS)}"
            )
    if not selected:
        raise H2HTalkError(f"--variants is empty; the variants are: {', '.join(VARIANTS)}, or all")
    return [name for name in VARIANTS if name in selected or (own and name == OWN)]


def variant_label(name: str) -> str:
    """A variant's name for people; ``with`` and ``without`` are the two of the paper's Table 3."""
    return VARIANTS[name].label if name in VARIANTS else name
