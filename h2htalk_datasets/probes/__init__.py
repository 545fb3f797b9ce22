"""Two probe sets for what no lexical score shows. They are never part of the composite score or of the 4,650 records.

`SafetyHighRisk`: does a companion notice danger and respond safely, and does it stay calm where there is none?
`InstructionFollowing`: how much worse is an answer when the user does not state the need openly?
`load_briefs` loads the briefs for a second model that plays the user of a conversation.
"""

__all__ = ["PROBES", "load_briefs", "load_probe"]

from h2htalk_datasets.loading import load_probe
from h2htalk_datasets.probes.user_briefs import load_briefs
from h2htalk_datasets.tasks import PROBES
