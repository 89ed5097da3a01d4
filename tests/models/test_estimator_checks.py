"""scikit-learn's own checks of an estimator, on every public model.

They feed numbers to `fit` and ask whether `y` was learned; the tags of our models (labels, missing values allowed, no
`y` needed) turn most of that into votes.  What cannot hold for votes is listed here with its reason, and a listed check
that passes is an error: the list can only shrink.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelfable.errors import LabelfableWarning
from labelfable.models.registry import available_models
from tests.conform import made

MORE = "classes are those of the votes; the check has more values in X than classes in y"
CANNOT_HOLD = {
    "check_positive_only_tag_during_fit": "−1 means abstain; numbers below it are refused, as no label is meant",
    "check_estimator_sparse_tag": "what a sparse matrix does not store is an abstention; the check drops all zeros, so"
    " that class 0 would have no vote, which is refused as a likely mistake",
    "check_estimators_empty_data_messages": "refused, in our words: 'the votes have no source: zero columns'",
    "check_classifiers_regression_target": "refused, in our words: a number with a fraction is not a label",
    "check_classifiers_classes": "y names classes in the words of the votes; the check gives names to y, numbers to X",
    "check_classifiers_train": MORE,
}
OWN_VOTES = {"check_classifiers_one_label": "new items are labelled by their votes, whatever y said of other items"}
TIES = "ties are drawn item by item: equal items would else share one draw"
ONLY = {
    "MajorityVote": {
        **OWN_VOTES,
        "check_methods_sample_order_invariance": TIES,
        "check_methods_subset_invariance": TIES,
    },
    "FABLE": {"check_n_features_in_after_fitting": MORE, "check_estimators_partial_fit_n_features": MORE},
    "EBCC": OWN_VOTES,
    "DataProgramming": OWN_VOTES,
    "FlyingSquid": OWN_VOTES,
    "WeaSEL": OWN_VOTES,
    "Denoise": OWN_VOTES,
}


def expected_failures(model: Any) -> dict[str, str]:
    """Checks that this model cannot pass, each with its reason."""
    return CANNOT_HOLD | ONLY.get(type(model).__name__, {})


@pytest.mark.usefixtures("votes_as_features")
@pytest.mark.filterwarnings("ignore:.*SCIPY_ARRAY_API")
@parametrize_with_checks([made(name) for name in available_models()], expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    np.random.seed(0)  # noqa: NPY002 (the checks draw from NumPy's global generator: else a listed one passes by luck)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelfableWarning)
        check(estimator)
