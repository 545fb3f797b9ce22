"""Engines: what answers a prompt, in this process or behind a server."""
