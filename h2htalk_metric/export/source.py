"""What formats of results need and a run does not tell."""

__all__ = ["Availability", "Deployment", "Relationship", "Source"]

from dataclasses import dataclass
from typing import Literal

Relationship = Literal["first_party", "third_party", "collaborative", "other"]
Deployment = Literal["self_deployed", "externally_managed", "unknown"]
Availability = Literal["open_weights", "closed_weights", "unknown"]


@dataclass(frozen=True)
class Source:
    """What the schema needs and a run does not tell.

    Attributes:
        organization: that evaluated the model.
        relationship: of this organization to the model.
        model_id: ``DEVELOPER/MODEL`` as on the Hub; None: the run's model if it is a Hub id.
        developer: name of the organization that provides the model; None: the first part of the model's id.
        deployment: who controls the inference; None: ``self_deployed``, ``externally_managed`` for OpenAI's own server,
            ``unknown`` for another server.
        availability: of the weights.
        benchmark: ``ORG/NAME`` of the dataset on the Hub; None: it is described without one.

    """

    organization: str = "unknown"
    relationship: Relationship = "third_party"
    model_id: str | None = None
    developer: str | None = None
    deployment: Deployment | None = None
    availability: Availability = "unknown"
    benchmark: str | None = None
