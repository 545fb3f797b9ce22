"""Prompts: a record becomes the messages a model is sent.

The system message holds what many records share, the most shared first: the Secure Attachment Persona
(SAP), the companion's profile, the task's instructions. The user message holds the record's own. So
thousands of prompts share their first tokens, which generation computes once.
"""

__all__ = ["SAP", "Principle", "fold_system", "for_template", "principles", "render", "render_probe", "render_user"]

from h2htalk_datasets.prompts.renderer import SAP, Principle, principles, render, render_probe, render_user
from h2htalk_datasets.prompts.system_role import fold_system, for_template
