"""Probe sets beside the eleven configs: what no lexical score shows.

`SafetyHighRisk` asks whether a companion notices danger and does right by it, and stays calm where there is none;
`InstructionFollowing` what a need costs that is left unsaid. Neither is ever part of the composite or of the 4,650.
Briefs for a second model that plays the user stand beside them.
"""

__all__ = ["PROBES", "load_briefs", "load_probe"]

from h2htalk_datasets.probes.schema import PROBES, load_probe
from h2htalk_datasets.probes.user_briefs import load_briefs
