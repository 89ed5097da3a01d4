"""Functions of logits that are safe at every size."""

from __future__ import annotations

from array_api_compat import array_namespace

from labelfable.numerics.namespace import Array, exp_over, row_maximum, row_sum

SMALL_TILT = 1e-2  # below it the series of tanh(t/2)/(2t) to t² is exact to 1e-11, and 0/0 is avoided


def log_sum_exp(logits: Array) -> Array:
    """Log Σ_c exp(x_c) over the last axis.  Shapes: [..., C] -> [...]."""
    return softmax(logits)[1]


def softmax(logits: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """Probabilities and their log normaliser over the last axis; `overwrite` lets them take the memory of the logits.

        p_c = exp(x_c − lse(x)),    lse(x) = max x + log Σ_c exp(x_c − max x)

    Shapes: [..., C] -> [..., C], [...].  Rows need at least one finite entry; −inf means "impossible".
    """
    xp = array_namespace(logits)
    top = row_maximum(logits)
    if overwrite:
        logits -= top
    powers = exp_over(logits if overwrite else logits - top)
    total = row_sum(powers)
    powers /= total
    return powers, xp.squeeze(top + xp.log(total), axis=-1)


def softmax_below_zero(logits: Array) -> tuple[Array, Array] | None:
    """The same for logits of which none is above 0, in their memory; None where all of a row's powers underflow.

    Without the search for each row's largest, which takes as long as the powers.
    """
    xp = array_namespace(logits)
    powers = exp_over(logits)
    total = row_sum(powers)
    limits = xp.finfo(powers.dtype)
    if xp.min(total) < limits.smallest_normal / limits.eps:
        return None
    powers /= total
    return powers, xp.squeeze(xp.log(total), axis=-1)


def x_log_x(values: Array) -> Array:
    """x log x with its limit 0 at x = 0.  Shape-preserving."""
    xp = array_namespace(values)
    return values * xp.log(xp.where(values > 0, values, xp.ones_like(values)))  # log 1 = 0 where x = 0


def entropy(probabilities: Array) -> Array:
    """−Σ_c p_c log p_c over the last axis.  Shapes: [..., C] -> [...]."""
    xp = array_namespace(probabilities)
    return -xp.squeeze(row_sum(x_log_x(probabilities)), axis=-1)


def without_traces(values: Array) -> Array:
    """The same, with 0 for what is smaller than ε²: products of such numbers are denormal, and slow beyond measure."""
    xp = array_namespace(values)
    trace = float(xp.finfo(values.dtype).eps) ** 2
    return xp.where(xp.abs(values) < trace, xp.zeros_like(values), values)


def log_two_cosh(values: Array) -> Array:
    """Log 2cosh(x) = |x| + log(1 + exp(−2|x|)).  Shape-preserving."""
    xp = array_namespace(values)
    size = xp.abs(values)
    return size + xp.log1p(xp.exp(-2 * size))


def polya_gamma_mean(tilt: Array) -> Array:
    """Mean of the Pólya-Gamma distribution PG(1, t): tanh(t/2)/(2t), with its limit 1/4 at t = 0.  Shape-preserving."""
    xp = array_namespace(tilt)
    small = tilt < SMALL_TILT
    near = xp.where(small, tilt, xp.zeros_like(tilt))  # the square of a large one would overflow
    far = xp.where(small, xp.ones_like(tilt), tilt)
    return xp.where(small, 0.25 - near * near / 48, xp.tanh(far / 2) / far / 2)
