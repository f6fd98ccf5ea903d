"""Long conversations of agents."""
