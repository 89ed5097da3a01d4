import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labelfable.datasets import read_texts
from labelfable.errors import FileError, InputError


def test_a_line_is_a_text_whatever_else_ends_lines_elsewhere(tmp_path):
    (tmp_path / "texts.txt").write_bytes("one\r\ntwo\u2028still two\x0b\n\n„vier“".encode())
    assert read_texts(tmp_path / "texts.txt") == ["one", "two\u2028still two\x0b", "", "„vier“"]


@pytest.mark.parametrize("end", ["jsonl", "jsonl.gz"])
def test_json_lines_are_strings_or_have_a_text(tmp_path, end):
    content = b'{"text": "a\\nb", "id": 3}\n"plain"\n'
    path = tmp_path / f"texts.{end}"
    path.write_bytes(gzip.compress(content) if end.endswith("gz") else content)
    assert read_texts(path) == ["a\nb", "plain"]


def test_a_column_of_a_table_may_have_holes(tmp_path):
    pq.write_table(pa.table({"length": [1, 2], "Text": ["x", None]}), tmp_path / "texts.parquet")
    assert read_texts(tmp_path / "texts.parquet") == ["x", ""]
    (tmp_path / "one.csv").write_text("anything\nx\ny\n")
    assert read_texts(tmp_path / "one.csv") == ["x", "y"]


def test_files_without_texts_are_refused(tmp_path):
    (tmp_path / "two.csv").write_text("a,b\nx,y\n")
    with pytest.raises(InputError, match=r"which column holds the texts.*Call it text; the columns are a, b"):
        read_texts(tmp_path / "two.csv")
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(FileError, match="cannot read texts from this file"):
        read_texts(tmp_path / "x.npy")
    (tmp_path / "latin.txt").write_bytes("käse".encode("latin-1"))
    with pytest.raises(FileError, match=r"holds no text.*latin\.txt"):
        read_texts(tmp_path / "latin.txt")
    with pytest.raises(FileError, match="no such file"):
        read_texts(tmp_path / "absent.jsonl")
    (tmp_path / "bad.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(FileError, match="cannot read this file"):
        read_texts(tmp_path / "bad.jsonl.gz")
