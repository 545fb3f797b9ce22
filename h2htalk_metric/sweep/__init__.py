"""Run, score, judge and compare a list of models."""
