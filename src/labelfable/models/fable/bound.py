"""The bound, one function a term, all constants kept.

It is taken right after the items' update, where the tilt is new.

    Σ_i Σ_c ρ_ic ( m/2 − log 2cosh(t/2) )                                                             sigmoid
  + Σ_i Σ_g r_ig ( Σ_c γ_ic ( E log λ + log mass_c − m/2 − log 2cosh(t/2) − log γ_ic + 1 )
                   − b E λ + H[q(λ_ig)] )                                                             normaliser
  + Σ_i Σ_c ρ_ic E log τ_k                                                                            classes
  + w Σ_i Σ_c ρ_ic ( Σ_j E log v_{jc y_ij} + constant_c )                                             votes
  + Σ_i H[ρ_i]                                                                                        entropy
  − KL( q(v) ‖ p(v) ) − KL( q(w) ‖ N(0, I) ) − KL( q(τ) ‖ p(τ) )
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from array_api_compat import array_namespace

from labelfable.numerics.distributions import dirichlet_divergence
from labelfable.numerics.namespace import total
from labelfable.numerics.special import entropy

if TYPE_CHECKING:
    from labelfable.models.fable.factors import GlobalFactors
    from labelfable.numerics.namespace import Array


def items_bound(
    responsibilities: Array,
    group_weight: Array,
    *,
    log_sigmoid: Array,
    normaliser: Array,
    log_prior: Array,
    evidence: Array,
) -> dict[str, Array]:
    """The items' part, by term: numbers that stay on the device of their arrays.

    Shapes: ρ [n, C], m/2 − log 2cosh(t/2) [n, C], each normaliser's bound [n, groups], r [n, groups], log_prior [C],
    evidence [n, C] (its weight w included).
    """
    xp = array_namespace(responsibilities)
    return {
        "sigmoid": total(responsibilities * log_sigmoid),
        "normaliser": total(group_weight * normaliser),
        "classes": total(xp.sum(responsibilities, axis=0) * log_prior),
        "votes": total(responsibilities * evidence),
        "entropy": total(entropy(responsibilities)),
    }


def global_bound(global_: GlobalFactors, class_prior: Array | None) -> dict[str, float]:
    """The globals' part, by term: minus each divergence from the prior."""
    terms = {"vote tables": -global_.votes.divergence, "processes": -global_.weights.divergence}
    if global_.classes is not None:
        terms["class proportions"] = -float(dirichlet_divergence(global_.classes, class_prior))
    return terms
