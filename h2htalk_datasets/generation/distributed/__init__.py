"""Many ranks: what they share, the queue of work, and how a job ends."""
