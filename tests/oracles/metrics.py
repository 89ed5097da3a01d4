"""Metrics item by item, from their definitions."""

from __future__ import annotations

import math


def calibration_error(probabilities, gold, n_bins):
    """Expected calibration error, one bin after another, one item after another."""
    scored = [(row, label) for row, label in zip(probabilities, gold, strict=True) if label >= 0]
    total = 0.0
    for b in range(n_bins):
        confidences, rights = [], []
        for row, label in scored:
            top = max(row)
            if b / n_bins < top <= (b + 1) / n_bins:
                winners = [k for k, share in enumerate(row) if share == top]
                confidences.append(top)
                rights.append(1 / len(winners) if label in winners else 0)
        if confidences:
            gap = abs(sum(rights) / len(rights) - sum(confidences) / len(confidences))
            total += len(confidences) / len(scored) * gap
    return total


def log_loss(probabilities, gold, least):
    """Mean negative log-probability of the truth, in nats."""
    costs = [-math.log(max(row[label], least)) for row, label in zip(probabilities, gold, strict=True) if label >= 0]
    return sum(costs) / len(costs)
