"""The doctor: acts as the clients of every protocol towards an instance of this gateway or any
other, and reports which of their needs are not met.
"""

from dragoman.lab.doctor.checks import Check, Weight
from dragoman.lab.doctor.embeddings import examine_embeddings
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
    "examine_embeddings",
]
