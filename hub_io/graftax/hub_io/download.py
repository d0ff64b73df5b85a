"""Downloads: archives by HTTP in TF-Hub's protocol, and Kaggle's models through kagglehub."""

import contextlib
import dataclasses
import hashlib
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from graftax.graphdef_ir import Limits, optional_library
from graftax.hub_io.archives import extract_archive
from graftax.hub_io.errors import DigestError, DownloadError
from graftax.hub_io.handles import KaggleModel

__all__ = ["DownloadOptions", "check_digest", "checked_digest", "download_archive", "download_from_kaggle"]

# Servers of modules answer with the archive instead of the module's page if the query says so.
_ARCHIVE_QUERY = ("tf-hub-format", "compressed")
# Between two pieces of an answer; `DownloadOptions.timeout_s` is for all of it.
_TIMEOUT_S = 60.0
_PIECE_BYTES = 1 << 20
_NUM_DIGITS = 64
# Hosts to which these servers of modules redirect.
_KNOWN_REDIRECTS = {"tfhub.dev": ("storage.googleapis.com", "www.kaggle.com", "kaggle.com")}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DownloadOptions:
  """What may be downloaded, and from where.

  Attributes:
    sha256: the digest that the archive must have, 64 hexadecimal digits; None if any will do.
    allow_http: whether the archive may come over plain http, on which others can read and change it.
    allow_hosts: names of hosts to which the server may redirect. With `sha256`, it may redirect to any.
    timeout_s: the time limit for the whole download, in seconds.
  """

  sha256: str | None = None
  allow_http: bool = False
  allow_hosts: tuple[str, ...] = ()
  timeout_s: float = 3600.0


def checked_digest(sha256: str | None) -> str | None:
  """Returns a digest in lower case.

  Raises:
    ValueError: it is not one of SHA-256.
  """
  if sha256 is None:
    return None
  digest = sha256.lower().removeprefix("sha256:")
  if len(digest) != _NUM_DIGITS or set(digest) - set("0123456789abcdef"):
    raise ValueError(f"sha256={sha256!r}: expected the {_NUM_DIGITS} hexadecimal digits of a SHA-256 digest.")
  return digest


def check_digest(found: str, expected: str | None, name: str) -> None:
  """Raises DigestError if an archive does not have the digest that the caller expects."""
  if expected is not None and found != expected:
    raise DigestError(f"{name}: its SHA-256 digest is {found}; expected {expected}. Nothing of it was unpacked.")


def download_archive(url: str, folder: Path, limits: Limits, options: DownloadOptions) -> None:
  """Downloads the archive of a module and unpacks it into an empty folder.

  Raises:
    DownloadError: the server cannot be reached, answers with an error, takes too long, or sends the archive in a way
      that the options do not allow.
    DigestError: the archive has another digest than the caller expects.
    ArchiveError: what the server sends is damaged, unsafe, or not an archive.
  """
  with _answer(url, options) as stream:
    if options.sha256 is None:
      extract_archive(stream, folder, name=url, limits=limits)
      return
    with tempfile.TemporaryFile(dir=folder.parent) as file:
      digest = hashlib.sha256()
      while piece := stream.read(_PIECE_BYTES):
        if file.tell() + len(piece) > limits.unpacked_bytes:
          raise DownloadError(f"{url}: the server sends more than {limits.unpacked_bytes} bytes.")
        digest.update(piece)
        file.write(piece)
      check_digest(digest.hexdigest(), options.sha256, url)
      file.seek(0)
      extract_archive(file, folder, name=url, limits=limits)


def download_from_kaggle(model: KaggleModel, *, force: bool) -> Path:
  """Downloads a model into Kaggle's cache with kagglehub, and returns its folder.

  Args:
    model: which model; without a version, the newest.
    force: download again even if kagglehub has a complete copy.

  Raises:
    LibraryNotFoundError: kagglehub is not installed.
    DownloadError: Kaggle cannot be reached, or refuses.
  """
  with optional_library(f"{model}: not in Kaggle's cache, and downloading it", "graftax-hub-io[kaggle]"):
    import kagglehub
  try:
    return Path(kagglehub.model_download(str(model), force_download=force))
  except Exception as e:  # kagglehub raises its own errors and those of requests; all mean the same here
    raise DownloadError(f"{model}: kagglehub could not download it: {type(e).__name__}: {e}") from e


@contextlib.contextmanager
def _answer(url: str, options: DownloadOptions) -> Iterator[BinaryIO]:
  if urlsplit(url).scheme != "https" and not options.allow_http:
    raise DownloadError(
      f"{url}: not an https address, so others on the way can change what is downloaded. Write https, or if you accept "
      "that, pass allow_http=True, with sha256= for the digest of the archive."
    )
  deadline = time.monotonic() + options.timeout_s
  request = urllib.request.Request(_with_query(url), headers={"User-Agent": "graftax-hub-io"})
  try:
    opener = urllib.request.build_opener(_Redirects(options))
    with opener.open(request, timeout=min(_TIMEOUT_S, options.timeout_s)) as response:
      yield _WithDeadline(response, deadline, options.timeout_s)  # type: ignore[misc]  # has what is used of BinaryIO
  except urllib.error.HTTPError as e:
    with e:  # it is the answer, which would stay open
      raise DownloadError(f"{url}: the server answers {e.code} {e.reason}.") from e
  except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as e:
    raise DownloadError(f"{url}: cannot be downloaded: {type(e).__name__}: {e}.") from e


class _WithDeadline:
  """A stream that raises when the time for all of it is up, also if each piece comes in time."""

  def __init__(self, response: Any, deadline: float, timeout_s: float):
    self._response = response
    self._deadline = deadline
    self._timeout_s = timeout_s

  def read(self, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0:
      if time.monotonic() > self._deadline:
        raise TimeoutError(
          f"the download takes longer than {self._timeout_s:g} s; pass a larger download_timeout_s if it is slow"
        )
      piece: bytes = self._response.read1(size)  # returns what has come, where `read` would wait for all of it
      if not piece:
        if self._response.length:  # `read1` does not raise if the connection breaks
          raise IncompleteRead(b"", self._response.length)
        break
      pieces.append(piece)
      size -= len(piece)
    return b"".join(pieces)


class _Redirects(urllib.request.HTTPRedirectHandler):
  """Follows redirects that the options allow."""

  def __init__(self, options: DownloadOptions):
    self._options = options

  def redirect_request(
    self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
  ) -> Any:
    old, new = urlsplit(req.full_url), urlsplit(newurl)
    if new.scheme not in ("https", old.scheme) or new.scheme not in ("https", "http"):
      raise DownloadError(f"{req.full_url}: the server redirects to {newurl!r}; expected an https address.")
    host = new.hostname or ""
    known = (old.hostname, *_KNOWN_REDIRECTS.get(old.hostname or "", ()), *self._options.allow_hosts)
    if host not in known and self._options.sha256 is None:
      raise DownloadError(
        f"{req.full_url}: the server redirects to another host, {newurl!r}. If you trust that host, pass "
        f"allow_hosts=[{host!r}]; or pass sha256= with the digest of the archive."
      )
    return super().redirect_request(req, fp, code, msg, headers, newurl)


def _with_query(url: str) -> str:
  parts = urlsplit(url)
  query = [*parse_qsl(parts.query, keep_blank_values=True), _ARCHIVE_QUERY]
  return urlunsplit(parts._replace(query=urlencode(query)))
