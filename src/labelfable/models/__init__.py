"""One label model a file or folder, all behind one contract."""

from labelfable.models.bcc.estimator import EBCC, IBCC
from labelfable.models.data_programming.estimator import DataProgramming
from labelfable.models.dawid_skene import DawidSkene
from labelfable.models.fable.estimator import FABLE
from labelfable.models.fable.explain import Contribution, Explanation
from labelfable.models.flyingsquid.estimator import FlyingSquid
from labelfable.models.majority_vote import MajorityVote
from labelfable.models.metal.estimator import MeTaL
from labelfable.models.neural.denoise import Denoise
from labelfable.models.neural.weasel import WeaSEL
from labelfable.models.registry import load

__all__ = [
    "EBCC",
    "FABLE",
    "IBCC",
    "Contribution",
    "DataProgramming",
    "DawidSkene",
    "Denoise",
    "Explanation",
    "FlyingSquid",
    "MajorityVote",
    "MeTaL",
    "WeaSEL",
    "load",
]
