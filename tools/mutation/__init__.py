"""Mutation tests of the core: does some test fail where a bug is put into it?

`python -m tools.mutation` draws a sample of small bugs (mutants) from the core's modules by a
seed, and runs against each of them the tests that reach its place until one fails. Which tests
reach which place is recorded once and kept until the core or the tests change.
"""
