"""A run folder: scored, compared, verified."""
