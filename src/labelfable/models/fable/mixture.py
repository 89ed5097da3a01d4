"""Responsibilities of the components."""

from __future__ import annotations

from labelfable.numerics.namespace import Array
from labelfable.numerics.special import softmax


def update_responsibilities(
    log_sigmoid: Array, log_prior: Array, evidence: Array, log_normaliser: Array
) -> tuple[Array, Array]:
    """Probability of each component and the log of what they were divided by.                    Equation (D)

        log ρ_ic = m_ic/2 − log 2cosh(t_ic/2) + E log τ_k + Σ_j E log v_{jc y_ij} + B_ig + const

    Shapes: log_sigmoid m/2 − log 2cosh(t/2) [n, C], log_prior [C], evidence [n, C], log_normaliser: the bound on
    −log of each component's own normaliser [n, C], 0 where all components share one -> [n, C], [n].
    """
    return softmax(log_sigmoid + log_prior + evidence + log_normaliser)
