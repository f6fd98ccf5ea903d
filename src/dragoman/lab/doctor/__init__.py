"""Tells why a client shows nothing: plays the clients of all three protocols against an instance,
of this gateway or any other, and checks what they need.
"""

from dragoman.lab.doctor.checks import Check, Weight
from dragoman.lab.doctor.examine import PROTOCOLS, NoModel, Refused, Unreachable, examine
from dragoman.lab.doctor.report import Finding, Findings, State

__all__ = [
    "PROTOCOLS",
    "Check",
    "Finding",
    "Findings",
    "NoModel",
    "Refused",
    "State",
    "Unreachable",
    "Weight",
    "examine",
]
