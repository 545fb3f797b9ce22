"""Publishing: the exact files of a repository on the Hub, and their upload."""

__all__ = ["BENCHMARK", "KINDS", "NEXT_STEPS", "check_card", "prepare_folder", "prepare_results", "upload"]

from h2htalk_metric.publish.hub import upload
from h2htalk_metric.publish.repositories import BENCHMARK, KINDS, NEXT_STEPS, check_card, prepare_folder
from h2htalk_metric.publish.results import prepare_results
