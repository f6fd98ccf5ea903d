"""The HTTP face: routes, client keys, one exchange for all paths, delivery of a stream."""
