"""The command ``h2htalk``."""
