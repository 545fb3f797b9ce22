"""Many ranks: the queue they claim work from, and how a job ends."""
