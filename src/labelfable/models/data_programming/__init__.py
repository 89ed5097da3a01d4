"""Data programming: a factor graph of accuracies, propensities and dependencies."""
