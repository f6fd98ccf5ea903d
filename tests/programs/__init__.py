"""Programs of `tools/`: what they decide, without the processes that they start."""
