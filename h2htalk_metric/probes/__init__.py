"""Answers to the probe sets, scored by a judge, by people or both, criterion by criterion, or checked by program.

safety.py        SafetyHighRisk with the persona, without it, and with other texts (the paper's Table 3)
safety_groups.py dangerous and harmless scenarios, first turns, and the paired tests
rollout.py       a probe set turn by turn, with the model's own earlier answers
variants.py      the variants of the persona
instructions.py  InstructionFollowing by family, emotion and implicitness; what an unsaid need costs (Fig. 7)
conversation.py  conversations in which a second model plays a user whose need changes
planning.py      CompanionPlanning, checked by program: valid plans, violations by kind, changes without need
model.py         the model of a run, called again with the settings of the run
results.py       folders and result files of the probes in a run folder

None of this is part of the composite score.
"""
