"""Costs of answers: the table of the vendors' prices, and what usage costs by it.

Money is counted in whole pico-dollars (10^-12 US dollars), so that a price for a million tokens
with six decimals is a whole number for one token, and sums are exact.
"""
