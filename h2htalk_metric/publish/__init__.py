"""Publishing: what goes into a repository on the Hub, file by file, and its way there."""

__all__ = ["AFTERWARDS", "BENCHMARK", "KINDS", "prepare_folder", "prepare_results", "upload"]

from h2htalk_metric.publish.hub import upload
from h2htalk_metric.publish.repositories import AFTERWARDS, BENCHMARK, KINDS, prepare_folder
from h2htalk_metric.publish.results import prepare_results
