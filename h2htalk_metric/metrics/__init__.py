"""The composite S and its seven components."""
