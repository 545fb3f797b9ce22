"""The leaderboard: a Gradio Space that also runs by ``h2htalk leaderboard``, and the submissions that fill it."""
