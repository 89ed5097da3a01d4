"""FABLE's settings: what they mean, what they may be, and their defaults."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from labelfable.inference.device_engine import PRECISIONS
from labelfable.models.fable.augmentation import NormaliserName
from labelfable.models.fable.emission import EmissionName
from labelfable.models.fable.emission_prior import ScaleName, SharingName
from labelfable.models.fable.reading import ReadingName
from labelfable.models.protocol import (
    AT_LEAST_ONE,
    CHECKPOINT,
    CLASS_PRIOR,
    DEVICE,
    ENGINE,
    N_JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    BaseLabelModel,
)


class FableSettings(BaseLabelModel):
    """Votes and features together: a mixture label model whose coefficients are Gaussian processes of the features.

    Equations (A)-(H), (P), (T).

    Parameters
    ----------
    inference : "variational" or "published"
        The derivation that raises its bound, or the paper's rules as printed, which stop with a warning where they
        break down and take their settings from `published` alone.
    n_subtypes : int
        Most subtypes of each class, M.  Fewer are used where the bound is higher without them.
    kernel : "linear", "rbf", "matern12", "matern32", "matern52" or "cosine"
        How alike two items' labels are, given their features.
    method : "inducing", "exact" or "lanczos"
        How the processes are held for kernels other than the linear one, which is exact in its weights.
    n_inducing : int
        Inducing points, or rank of the Lanczos approximation.
    inducing : "kmeans" or "pivoted"
        How inducing points are chosen: centres of the items, or items by pivoted Cholesky.
    lengthscale : None, float, one number a feature, or "ard"
        In units of the scaled features; None takes the median distance between items, "ard" one a feature.
    variance, constant : float
        Prior variance of each process, and of its constant.  Where no feature varies the constants are held near
        the class proportions, unless those are to be learned: freed, they let rare classes die.
    learn : tuple of "variance", "lengthscale", "constant"
        Hyperparameters of the kernel that are moved to where the bound is highest before the fit.
    scaling : "standardise", "normalise", "whiten" or "none"
        What is done to the features first; `projection_` records it.
    max_components : int
        Principal components of the features that the linear kernel keeps.
    missing : "error" or "ignore"
        Items with NaN among their features: refuse, or use their votes alone.
    emission : "pattern", "fired", "silence" or "rates"
        How votes depend on the class: see `emission.py`.
    tables : "point" or "posterior"
        Whether vote tables are kept as their mode or as a posterior.
    strength, accuracy, scale, sharing, flat, rarity, firmness : float, float, str, str, float, float, float
        The prior of the votes: see `emission_prior.py`.
    silence_weight : float
        Of whether a source speaks, with emission="silence": from 1 (that of what it says) to 0 (none, as in "fired").
    evidence_weight : float
        Weight of the votes in the likelihood; less than one where sources err together.
    normaliser : "collapsed" or "factored"
        The normaliser with its rate integrated out (a tighter bound), or with a Gamma factor for it, as in the paper.
    reading : "joint", "base" or "conditional"
        Where the class proportions stand: see `reading.py`.
    tilt : "mean" or "posterior"
        Processes as points, or as posteriors: whether their uncertainty raises the tilt t.
    uncovered : "out" or "in"
        Whether items without votes take part in the fit.  They are predicted either way.
    calibration : "votes" or "none"
        Average over fits that hear silence or not and that see half of the sources, views trusted as far as votes that
        they did not see bear them out (see `committee.py`); or the one fit as it is.
    class_prior : "votes", "uniform", "learned", or one number a class
        Class proportions: majority vote's, equal, given, or left to the processes' constants (to τ where it exists).
    decay : float
        How fast old items fade in `partial_fit`: 1 keeps them for ever, less follows what changes.
    published : dict or None
        Settings of inference="published": see `PublishedSettings`.
    n_init : int
        Starts of the subtypes; the one with the highest bound is kept.
    tol : float
        Stop when a sweep raises the bound by less than this per item.
    max_iter : int
        Most sweeps of each start.
    n_jobs : int or None
        Threads; None means all cores.  The answer does not depend on it.
    engine : None, "dask", a scheduler's address, or a Dask client
        Where the work is done: threads of this process, a cluster of this machine's cores, or one that runs already.
        The answer does not depend on it.
    device : None, "cuda", "cuda:1" or "cpu"
        Where the sweeps run by PyTorch; None stays with NumPy, except where the features lie on a GPU already.
    device_memory : None, int or str
        Bytes of the device that a fit may use, such as "16GB"; None takes what is free.  What does not fit is streamed.
    precision : "fp32" or "tf32"
        Of products on a GPU.
    checkpoint : path or None
        Folder that keeps the state after each sweep; a fit that was killed goes on from there to the same answer.
    random_state : int
        Seed of inducing points, starts, and draws between tied classes.

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_subtypes": AT_LEAST_ONE,
        "inference": [StrOptions({"variational", "published"})],
        "kernel": [StrOptions({"linear", "rbf", "matern12", "matern32", "matern52", "cosine"})],
        "method": [StrOptions({"inducing", "exact", "lanczos"})],
        "n_inducing": AT_LEAST_ONE,
        "inducing": [StrOptions({"kmeans", "pivoted"})],
        "lengthscale": [None, Interval(Real, 0, None, closed="neither"), "array-like", StrOptions({"ard"})],
        "variance": POSITIVE,
        "constant": POSITIVE,
        "learn": ["array-like", StrOptions({"variance", "lengthscale", "constant"})],
        "scaling": [StrOptions({"standardise", "normalise", "whiten", "none"})],
        "max_components": AT_LEAST_ONE,
        "missing": [StrOptions({"error", "ignore"})],
        "emission": [StrOptions({"pattern", "fired", "silence", "rates"})],
        "tables": [StrOptions({"point", "posterior"})],
        "strength": NOT_NEGATIVE,
        "accuracy": [Interval(Real, 0, 1, closed="neither")],
        "scale": [StrOptions({"proportional", "counts"})],
        "sharing": [StrOptions({"source", "shared", "hierarchical", "hierarchical_strength"})],
        "firmness": POSITIVE,
        "silence_weight": [Interval(Real, 0, 1, closed="both")],
        "flat": POSITIVE,
        "rarity": [Interval(Real, 0, 1, closed="both")],
        "evidence_weight": POSITIVE,
        "normaliser": [StrOptions({"collapsed", "factored"})],
        "reading": [StrOptions({"joint", "base", "conditional"})],
        "tilt": [StrOptions({"mean", "posterior"})],
        "uncovered": [StrOptions({"out", "in"})],
        "calibration": [StrOptions({"votes", "none"})],
        "class_prior": CLASS_PRIOR,
        "decay": [Interval(Real, 0, 1, closed="right")],
        "published": [dict, None],
        "n_init": AT_LEAST_ONE,
        "tol": NOT_NEGATIVE,
        "max_iter": AT_LEAST_ONE,
        "n_jobs": N_JOBS,
        "engine": ENGINE,
        "device": DEVICE,
        "device_memory": [Interval(Real, 0, None, closed="neither"), str, None],
        "precision": [StrOptions(set(PRECISIONS))],
        "checkpoint": CHECKPOINT,
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_subtypes: int = 1,
        *,
        inference: str = "variational",
        kernel: str = "linear",
        method: str = "inducing",
        n_inducing: int = 100,
        inducing: str = "kmeans",
        lengthscale: Any = None,
        variance: float = 2.0,
        constant: float = 4.0,
        learn: Any = (),
        scaling: str = "standardise",
        max_components: int = 128,
        missing: str = "error",
        emission: EmissionName = "pattern",
        tables: str = "point",
        strength: float = 1.0,
        accuracy: float = 0.85,
        scale: ScaleName = "proportional",
        sharing: SharingName = "source",
        flat: float = 0.01,
        rarity: float = 0.6,
        firmness: float = 100.0,
        silence_weight: float = 1.0,
        evidence_weight: float = 0.6,
        normaliser: NormaliserName = "collapsed",
        reading: ReadingName = "joint",
        tilt: str = "mean",
        uncovered: str = "out",
        calibration: str = "votes",
        class_prior: Any = "votes",
        decay: float = 0.7,
        published: Any = None,
        n_init: int = 3,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        engine: Any = None,
        device: Any = None,
        device_memory: Any = None,
        precision: str = "fp32",
        checkpoint: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.n_subtypes = n_subtypes
        self.inference = inference
        self.kernel = kernel
        self.method = method
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.lengthscale = lengthscale
        self.variance = variance
        self.constant = constant
        self.learn = learn
        self.scaling = scaling
        self.max_components = max_components
        self.missing = missing
        self.emission = emission
        self.tables = tables
        self.strength = strength
        self.accuracy = accuracy
        self.scale = scale
        self.sharing = sharing
        self.flat = flat
        self.rarity = rarity
        self.firmness = firmness
        self.silence_weight = silence_weight
        self.evidence_weight = evidence_weight
        self.normaliser = normaliser
        self.reading = reading
        self.tilt = tilt
        self.uncovered = uncovered
        self.calibration = calibration
        self.class_prior = class_prior
        self.decay = decay
        self.published = published
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.engine = engine
        self.device = device
        self.device_memory = device_memory
        self.precision = precision
        self.checkpoint = checkpoint
        self.random_state = random_state
