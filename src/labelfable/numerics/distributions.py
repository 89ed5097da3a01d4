"""Moments, entropies and divergences of the distributions in use.  The last axis is the event axis."""

from __future__ import annotations

from array_api_compat import array_namespace

from labelfable.numerics.namespace import Array, digamma, log_gamma


def dirichlet_mean(concentration: Array) -> Array:
    """E p_l = μ_l / Σ_l μ_l.  Shapes: [..., labels] -> [..., labels]."""
    xp = array_namespace(concentration)
    return concentration / xp.sum(concentration, axis=-1, keepdims=True)


def dirichlet_mean_log(concentration: Array) -> Array:
    """E log p_l = ψ(μ_l) − ψ(Σ_l μ_l).  Shapes: [..., labels] -> [..., labels]."""
    xp = array_namespace(concentration)
    return digamma(concentration) - digamma(xp.sum(concentration, axis=-1, keepdims=True))


def dirichlet_log_normaliser(concentration: Array) -> Array:
    """Log B(μ) = Σ_l log Γ(μ_l) − log Γ(Σ_l μ_l).  Shapes: [..., labels] -> [...]."""
    xp = array_namespace(concentration)
    return xp.sum(log_gamma(concentration), axis=-1) - log_gamma(xp.sum(concentration, axis=-1))


def dirichlet_divergence(posterior: Array, prior: Array) -> Array:
    """KL( Dir(μ) ‖ Dir(β) ) = log B(β) − log B(μ) + Σ_l (μ_l − β_l) E_μ log p_l.

    Shapes: [..., labels], [..., labels] -> [...].
    """
    xp = array_namespace(posterior, prior)
    expected = xp.sum((posterior - prior) * dirichlet_mean_log(posterior), axis=-1)
    return dirichlet_log_normaliser(prior) - dirichlet_log_normaliser(posterior) + expected


def gamma_divergence(shape: Array, rate: Array, prior_shape: Array, prior_rate: Array) -> Array:
    """KL( Gamma(a, b) ‖ Gamma(a₀, b₀) ), rates b.  Shape-preserving.

    (a − a₀) ψ(a) − log Γ(a) + log Γ(a₀) + a₀ (log b − log b₀) + a (b₀ − b) / b
    """
    xp = array_namespace(shape, rate)
    entropy_part = (shape - prior_shape) * digamma(shape) - log_gamma(shape) + log_gamma(prior_shape)
    return entropy_part + prior_shape * (xp.log(rate) - xp.log(prior_rate)) + shape * (prior_rate - rate) / rate
