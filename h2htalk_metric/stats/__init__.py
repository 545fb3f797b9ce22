"""Aggregation, intervals, tests and agreement."""
