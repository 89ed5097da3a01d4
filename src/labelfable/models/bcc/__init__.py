"""Bayesian classifier combination: iBCC and EBCC."""
