"""Engines: what answers prompts, in this process or behind a server."""
