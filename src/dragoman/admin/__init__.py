"""`/admin`: the remote administration, and who may use it."""
