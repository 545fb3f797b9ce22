"""CompanionMemory with a model: memory strategies, answers, results."""
