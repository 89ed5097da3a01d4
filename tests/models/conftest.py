"""What tests of several models share as fixtures."""

from __future__ import annotations

import numpy as np
import pytest

from labelfable.models.neural.estimator import NeuralModel


@pytest.fixture
def votes_as_features(monkeypatch):
    """Models that need features get the votes, one column a source and class, where a test of all models has none."""
    read = NeuralModel._read_features

    def read_or_make(self, features, table):
        made = table.plain_incidence.toarray().astype(np.float32) if features is None else features
        return read(self, made, table)

    monkeypatch.setattr(NeuralModel, "_read_features", read_or_make)
