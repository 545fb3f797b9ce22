"""What no lexical score shows: answers to the probe sets, marked criterion by criterion by a judge, by people, or both.

settings.py     asking a run's model once more, as the run had it
ablation.py     SafetyHighRisk with the persona, without, and without each principle (the paper's Table 3)
following.py    InstructionFollowing by family, mood and faintness, and what a need costs that is left unsaid (Fig. 7)
conversing.py   a second model plays a user whose need changes
tables.py       these results as Markdown and for a terminal

Nothing of this is ever part of the composite.
"""
