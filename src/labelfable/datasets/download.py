"""One file from the network: resumed where it stopped, checked, and in its place in one step or not at all."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from labelfable.errors import FileError
from labelfable.persistence import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[str, int, int | None], None]
    """Called with the file's name, how many bytes are here, and how many there are to be, where that is known."""

CHUNK = 2**16
ATTEMPTS = 4  # of a transfer that breaks off; each goes on where the last one stopped
PAUSE = 1.0  # seconds before the second try; longer each time
TIMEOUT = 30.0  # seconds without a byte
PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416
SHA256_DIGITS = 64
NETWORK_ERRORS = (http.client.HTTPException, OSError)


class _BrokenOffError(Exception):
    """The connection ended before the file did."""


def download(url: str, target: Path, *, sha256: str | None = None, progress: Progress | None = None) -> None:
    """Get a file, going on from what an earlier try left beside the target; the target appears once it is whole.

    What arrives must have the size that the server tells, the given SHA-256, and the checksum that the server tells, as
    far as these are known.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise FileError("this is no web address", where=url, hint="Expected http:// or https://")
    part = target.with_name(f".{target.name}.part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            told = _receive(url, part, target.name, progress)
            break
        except _BrokenOffError as error:
            if attempt == ATTEMPTS:
                raise FileError(
                    "the download broke off", where=url, hint=f"{error}. Run it again: it goes on from there"
                ) from error
            time.sleep(PAUSE * attempt)
    for expected in filter(None, (sha256, told)):
        found = checksum(part, git=len(expected) != SHA256_DIGITS)
        if found != expected.lower():
            _forget(part)
            raise FileError(
                "what was downloaded has another checksum than expected, and was thrown away",
                where=url,
                hint=f"Expected {expected}, found {found}. Try again, or get the file by hand",
            )
    with replace_file(target) as temporary:
        part.replace(temporary)
    _forget(part)


def checksum(path: Path, *, git: bool = False) -> str:
    """SHA-256 of a file; or the SHA-1 by which Git knows its content, which begins with its size."""
    digest = hashlib.sha1(usedforsecurity=False) if git else hashlib.sha256()
    if git:
        digest.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as handle:
        while chunk := handle.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _receive(url: str, part: Path, name: str, progress: Progress | None) -> str | None:
    """Append what is missing to the partial file; returns the checksum that the server tells, if it does."""
    tag_file = _tag_file(part)
    start = part.stat().st_size if part.is_file() and tag_file.is_file() else 0
    with _answered(url, start, tag_file) as (answer, digest):
        resumed = answer.status == PARTIAL_CONTENT
        if resumed and not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            tag_file.unlink()
            raise _BrokenOffError("the server sent another part of the file than asked for")
        start = start if resumed else 0
        length = answer.headers.get("Content-Length")
        size = None if length is None else start + int(length)
        with _disk_errors(part):
            if not resumed:
                part.unlink(missing_ok=True)  # before its tag changes: who is killed here must not go on with old bytes
            if size is not None:
                _refuse_too_large(size - start, part)
            tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
            if tag and not tag.startswith("W/"):  # a weak tag does not promise the same bytes
                tag_file.write_text(tag, encoding="utf-8")
            else:
                tag_file.unlink(missing_ok=True)
        done = _copy(answer, part, start, lambda done: progress and progress(name, done, size))
    if size is not None and done < size:
        raise _BrokenOffError(f"{done:,} of {size:,} bytes are here")
    return digest


def _copy(answer: Any, part: Path, start: int, report: Callable[[int], Any]) -> int:
    """Write what the server sends from `start` on; returns how many bytes the file then has."""
    done = start
    with _disk_errors(part), part.open("ab" if start else "wb") as handle:
        report(done)
        while chunk := _next_chunk(answer, done):
            handle.write(chunk)
            handle.flush()
            done += len(chunk)
            report(done)
    return done


def _next_chunk(answer: Any, done: int) -> bytes:
    try:
        chunk: bytes = answer.read(CHUNK)
    except NETWORK_ERRORS as error:
        raise _BrokenOffError(f"{done:,} bytes are here; the network says: {error}") from error
    return chunk


@contextmanager
def _answered(url: str, start: int, tag_file: Path) -> Iterator[tuple[Any, str | None]]:
    """The server's answer, from `start` on where it still has the file whose tag was kept, and the content's digest."""
    headers = {"User-Agent": "labelfable", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": tag_file.read_text(encoding="utf-8")}
    redirects = _Redirects()
    try:
        answer = build_opener(redirects).open(Request(url, headers=headers), timeout=TIMEOUT)  # noqa: S310 (scheme is checked)
    except HTTPError as error:
        error.close()
        if error.code == RANGE_NOT_SATISFIABLE:
            tag_file.unlink(missing_ok=True)
            raise _BrokenOffError("the file is shorter now") from error
        raise FileError(
            f"the server refused: {error.code} {error.reason}",
            where=url,
            hint="The file may have moved; get it by hand and give its folder with --from",
        ) from error
    except NETWORK_ERRORS as error:
        raise FileError(
            f"cannot reach {urlsplit(url).hostname}",
            where=url,
            hint=f"Without internet, give the folder that holds the files with --from. The network says:"
            f" {getattr(error, 'reason', error)}",
        ) from error
    with answer:
        yield answer, redirects.digest or _hub_digest(answer.headers)


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, and keeps what the first answer tells of the content."""

    digest: str | None = None

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> Any:  # noqa: PLR0917 (urllib's own signature)
        """The request to send instead."""
        self.digest = self.digest or _hub_digest(headers)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _hub_digest(headers: Any) -> str | None:
    """The content's checksum, which the Hugging Face hub tells: SHA-256 of large files, Git's blob id of small ones."""
    if "X-Repo-Commit" not in headers:
        return None  # any other server's ETag is a name without a meaning
    tag = (headers.get("X-Linked-ETag") or headers.get("ETag") or "").removeprefix("W/").strip('"').lower()
    return tag if len(tag) in (40, SHA256_DIGITS) and not tag.strip("0123456789abcdef") else None


def _refuse_too_large(needed: int, part: Path) -> None:
    """An error before the disk is full."""
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise FileError(
            f"the disk has {free:,} bytes left and {needed:,} are to come",
            where=str(part.parent),
            hint="Make room, or choose another folder with LABELFABLE_CACHE",
        )


@contextmanager
def _disk_errors(part: Path) -> Iterator[None]:
    """What the disk refuses, as one of our errors; the partial file goes, for it may be what fills the disk."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        _forget(part)
        raise FileError(
            "cannot write what is downloaded", where=str(part.parent), hint=f"The system says: {error.strerror}"
        ) from error


def _tag_file(part: Path) -> Path:
    """Where the server's name of the partial file's content is kept."""
    return part.with_name(f"{part.name}.tag")


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _tag_file(part).unlink(missing_ok=True)
