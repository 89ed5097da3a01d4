"""How good labels are: metrics where gold is known, and models side by side against majority vote."""

from labelfable.evaluation.compare import Comparison, Verdict, compare_models
from labelfable.evaluation.metrics import (
    accuracy,
    covered_accuracy,
    expected_calibration_error,
    f1,
    log_loss,
    macro_f1,
)

__all__ = [
    "Comparison",
    "Verdict",
    "accuracy",
    "compare_models",
    "covered_accuracy",
    "expected_calibration_error",
    "f1",
    "log_loss",
    "macro_f1",
]
