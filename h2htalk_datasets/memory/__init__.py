"""CompanionMemory: conversations over weeks, a ledger of their facts, and questions with a mechanical verdict."""
