"""Several noisy votes per item in, calibrated probabilistic labels out; no gold labels needed."""

from labelfable.models import (
    EBCC,
    FABLE,
    IBCC,
    Contribution,
    DataProgramming,
    DawidSkene,
    Denoise,
    Explanation,
    FlyingSquid,
    MajorityVote,
    MeTaL,
    WeaSEL,
    load,
)
from labelfable.votes import StoredVotes, VoteTable, open_votes, read_votes, source_summary

__all__ = [
    "EBCC",
    "FABLE",
    "IBCC",
    "Contribution",
    "DataProgramming",
    "DawidSkene",
    "Denoise",
    "Explanation",
    "FlyingSquid",
    "MajorityVote",
    "MeTaL",
    "StoredVotes",
    "VoteTable",
    "WeaSEL",
    "load",
    "open_votes",
    "read_votes",
    "source_summary",
]
__version__ = "0.1.0"
