"""Raw votes -> one trusted table."""

from labelfable.votes.read import read_gold, read_votes
from labelfable.votes.stored import StoredVotes, open_votes
from labelfable.votes.summary import source_summary
from labelfable.votes.table import VoteTable

__all__ = ["StoredVotes", "VoteTable", "open_votes", "read_gold", "read_votes", "source_summary"]
