"""What the stores keep, and the statements that read and write it: the same in each database."""
