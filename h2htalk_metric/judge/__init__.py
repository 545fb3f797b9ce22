"""The judge: rubrics, a model that marks answers by them, and how its marks join the composite (Eq. 3, 4)."""
