"""Programs that attack limits and budgets."""
