import hashlib
import signal
import socket
from collections import namedtuple

import pytest

from labelfable.datasets import download as module
from labelfable.datasets.download import checksum, download
from labelfable.errors import FileError
from tests.datasets.file_server import serving

CONTENT = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
GIT = hashlib.sha1(b"blob 512000\0" + CONTENT, usedforsecurity=False).hexdigest()
PART, TAG = ".data.json.part", ".data.json.part.tag"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)
    with serving() as files:
        files.files["/data.json"] = CONTENT
        yield files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_whole_with_progress_and_leaves_nothing_beside_it(server, tmp_path):
    told = []
    download(
        f"{server.url}/data.json",
        tmp_path / "data.json",
        sha256=SHA256.upper(),
        progress=lambda *what: told.append(what),
    )
    assert (tmp_path / "data.json").read_bytes() == CONTENT
    assert names(tmp_path) == ["data.json"]
    assert {(name, total) for name, _, total in told} == {("data.json", len(CONTENT))}
    done = [count for _, count, _ in told]
    assert (done[0], done[-1]) == (0, len(CONTENT))
    assert done == sorted(done)
    assert len(done) > 3


def test_a_broken_transfer_goes_on_where_it_stopped(server, tmp_path):
    server.cut = [100_000, 50_000]
    download(f"{server.url}/data.json", tmp_path / "data.json", sha256=SHA256)
    assert [asked for _, asked in server.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert (tmp_path / "data.json").read_bytes() == CONTENT
    assert names(tmp_path) == ["data.json"]


def test_what_an_interrupted_run_left_is_gone_on_with(server, tmp_path):
    server.cut = [1000] * module.ATTEMPTS
    with pytest.raises(FileError, match=r"broke off.*4,000 of 512,000 bytes.*goes on from there"):
        download(f"{server.url}/data.json", tmp_path / "data.json")
    assert names(tmp_path) == [PART, TAG]
    download(f"{server.url}/data.json", tmp_path / "data.json", sha256=SHA256)
    assert server.asked[-1] == ("/data.json", "bytes=4000-")
    assert names(tmp_path) == ["data.json"]


@pytest.mark.parametrize("change", ["content", "no ranges", "no tag", "weak tag", "shorter", "wrong part"])
def test_a_file_that_cannot_be_gone_on_with_is_fetched_anew(server, tmp_path, change):
    server.headers["/data.json"] = {"no tag": {"ETag": ""}, "weak tag": {"ETag": 'W/"1"'}}.get(change, {})
    server.cut = [1000] * module.ATTEMPTS
    with pytest.raises(FileError, match="broke off"):
        download(f"{server.url}/data.json", tmp_path / "data.json")
    content = CONTENT
    if change == "content":
        content = server.files["/data.json"] = CONTENT[::-1]
    if change == "shorter":
        server.headers["/data.json"] = {"ETag": (tmp_path / TAG).read_text()}
        content = server.files["/data.json"] = CONTENT[:500]
    server.shift = 7 * (change == "wrong part")
    server.knows_ranges = change != "no ranges"
    download(f"{server.url}/data.json", tmp_path / "data.json")
    assert (tmp_path / "data.json").read_bytes() == content
    assert names(tmp_path) == ["data.json"]


def test_a_wrong_checksum_leaves_nothing_and_touches_nothing(server, tmp_path):
    (tmp_path / "data.json").write_text("old")
    with pytest.raises(FileError, match=f"another checksum.*Expected {'0' * 64}, found {SHA256}"):
        download(f"{server.url}/data.json", tmp_path / "data.json", sha256="0" * 64)
    assert names(tmp_path) == ["data.json"]
    assert (tmp_path / "data.json").read_text() == "old"


@pytest.mark.parametrize(
    ("redirect", "final", "fits"),
    [
        ({"X-Repo-Commit": "1", "X-Linked-ETag": f'"{SHA256}"'}, {}, True),
        ({"X-Repo-Commit": "1", "X-Linked-ETag": f'"{SHA256[::-1]}"'}, {}, False),
        ({}, {"X-Repo-Commit": "1", "ETag": f'"{GIT}"'}, True),
        ({}, {"X-Repo-Commit": "1", "ETag": f'"{GIT[::-1]}"'}, False),
        ({}, {"ETag": f'"{SHA256[::-1]}"'}, True),  # not the hub's: a name that says nothing of the content
        ({}, {"X-Repo-Commit": "1", "ETag": '"a name"'}, True),
    ],
)
def test_the_checksum_that_the_hub_tells_is_checked(server, tmp_path, redirect, final, fits):
    server.redirects["/resolve"] = ("/data.json", redirect)
    server.headers["/data.json"] = final
    server.cut = [1000]
    if fits:
        download(f"{server.url}/resolve", tmp_path / "data.json")
        assert (tmp_path / "data.json").read_bytes() == CONTENT
        return
    with pytest.raises(FileError, match="another checksum"):
        download(f"{server.url}/resolve", tmp_path / "data.json")
    assert names(tmp_path) == []


def test_checksums_are_those_of_sha256sum_and_of_git(tmp_path):
    (tmp_path / "hello").write_bytes(b"hello\n")
    assert checksum(tmp_path / "hello", git=True) == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object
    assert checksum(tmp_path / "hello").startswith("5891b5b522d5df086d0ff0b110fbd9d21bb4fc71")


def test_a_missing_file_is_the_servers_word(server, tmp_path):
    with pytest.raises(FileError, match=r"the server refused: 404 Not Found .*absent\.json"):
        download(f"{server.url}/absent.json", tmp_path / "absent.json")
    assert names(tmp_path) == []


def test_without_a_network_there_is_one_clear_error(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FileError, match=r"cannot reach 127\.0\.0\.1.*give the folder.*refused"):
        download(f"http://127.0.0.1:{port}/data.json", tmp_path / "data.json")
    with pytest.raises(FileError, match="this is no web address"):
        download(tmp_path.as_uri(), tmp_path / "data.json")
    assert names(tmp_path) == []


def test_a_server_that_says_nothing_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    server.silent.set()
    with pytest.raises(FileError, match=r"cannot reach.*timed out"):
        download(f"{server.url}/data.json", tmp_path / "data.json")


def test_a_disk_that_is_too_small_is_told_before_it_is_full(server, tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")  # noqa: PYI024 (one line for one test)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage(1000))
    with pytest.raises(FileError, match="the disk has 1,000 bytes left and 512,000 are to come"):
        download(f"{server.url}/data.json", tmp_path / "data.json")
    assert names(tmp_path) == []


def test_a_disk_that_fills_up_leaves_nothing_behind(server, tmp_path):
    """The system itself refuses to write: here because of a limit on the size of files."""
    resource = pytest.importorskip("resource", reason="only Unix can limit the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(FileError, match=r"cannot write what is downloaded.*The system says: File too large"):
            download(f"{server.url}/data.json", tmp_path / "data.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert names(tmp_path) == []
