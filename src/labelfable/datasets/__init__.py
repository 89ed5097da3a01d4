"""Data in and out: files, and sets to try things on."""

from labelfable.datasets.bundled import VotedData, bundled_data

__all__ = ["VotedData", "bundled_data"]
