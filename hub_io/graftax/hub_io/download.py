"""Downloads: archives by HTTP in TF-Hub's protocol, and Kaggle's models through kagglehub."""

import contextlib
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from graftax.graphdef_ir import optional_library
from graftax.hub_io.archives import ArchiveLimits, extract_archive
from graftax.hub_io.errors import DownloadError
from graftax.hub_io.handles import KaggleModel

__all__ = ["download_archive", "download_from_kaggle"]

# Servers of modules answer with the archive instead of the module's page if the query says so.
_ARCHIVE_QUERY = ("tf-hub-format", "compressed")
# Between two pieces of an answer, not for all of it.
_TIMEOUT_S = 60.0


def download_archive(url: str, folder: Path, limits: ArchiveLimits) -> None:
  """Downloads the archive of a module and unpacks it into an empty folder.

  Raises:
    DownloadError: the server cannot be reached, or answers with an error.
    ArchiveError: what it sends is damaged, unsafe, or not an archive.
  """
  with _answer(url) as stream:
    extract_archive(stream, folder, name=url, limits=limits)


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
def _answer(url: str) -> Iterator[BinaryIO]:
  request = urllib.request.Request(_with_query(url), headers={"User-Agent": "graftax-hub-io"})
  try:
    with urllib.request.build_opener(_HttpOnly).open(request, timeout=_TIMEOUT_S) as response:
      yield response
  except urllib.error.HTTPError as e:
    with e:  # it is the answer, which would stay open
      raise DownloadError(f"{url}: the server answers {e.code} {e.reason}.") from e
  except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as e:
    raise DownloadError(f"{url}: cannot be downloaded: {type(e).__name__}: {e}.") from e


class _HttpOnly(urllib.request.HTTPRedirectHandler):
  """Refuses redirects from https to anything less, which urllib follows."""

  def redirect_request(
    self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
  ) -> Any:
    if urlsplit(newurl).scheme not in ("https", urlsplit(req.full_url).scheme):
      raise DownloadError(f"{req.full_url}: the server redirects to {newurl!r}; expected an https address.")
    return super().redirect_request(req, fp, code, msg, headers, newurl)


def _with_query(url: str) -> str:
  parts = urlsplit(url)
  query = [*parse_qsl(parts.query, keep_blank_values=True), _ARCHIVE_QUERY]
  return urlunsplit(parts._replace(query=urlencode(query)))
