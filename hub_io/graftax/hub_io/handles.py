"""Parses handles: what a user writes to name a module, and which Kaggle model and TF-Hub address that is."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from graftax.hub_io.errors import HandleError
from graftax.hub_io.kaggle_names import kaggle_name

__all__ = ["Handle", "KaggleModel", "parse_handle"]

_TFHUB = "https://tfhub.dev/"
_TFHUB_HOSTS = ("tfhub.dev", "www.tfhub.dev", "hub.tensorflow.google.cn")
_KAGGLE_HOSTS = ("kaggle.com", "www.kaggle.com")
_TFHUB_BUCKET = "gs://tfhub-modules/"
_GCS = "https://storage.googleapis.com/"
_ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar")
# Versions of TF-Hub models are kept in its bucket as an archive or as a folder of this name.
_UNCOMPRESSED = "/uncompressed"
_EXPECTED = "OWNER/MODEL/FRAMEWORK/VARIATION[/VERSION]"
_MOVED = (
  "TF-Hub's models have moved to Kaggle, where they have other names. If you have the model from there, write its name "
  "on Kaggle, to which {url} leads in a browser, such as 'google/yamnet/tensorFlow2/yamnet/1'."
)
_SLUG = r"[A-Za-z0-9_.][A-Za-z0-9_.-]*"
_MODEL_NAME = re.compile(rf"({_SLUG})/({_SLUG})/({_SLUG})/({_SLUG})(?:/([0-9]{{1,9}}))?")
_LONG_NAME = re.compile(r"/frameworks/([^/]+)/variations/([^/]+)(?:/versions/([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class KaggleModel:
  """A model variation on Kaggle, as kagglehub names it.

  Attributes:
    owner: who published it.
    model: its name.
    framework: `"tensorFlow1"` or `"tensorFlow2"`, spelled in any case.
    variation: which of its variations.
    version: a number from 1, or None for the newest.
  """

  owner: str
  model: str
  framework: str
  variation: str
  version: int | None = None

  def __str__(self) -> str:
    name = f"{self.owner}/{self.model}/{self.framework}/{self.variation}"
    return name if self.version is None else f"{name}/{self.version}"


@dataclass(frozen=True, slots=True)
class Handle:
  """A parsed handle.

  Attributes:
    text: what the user wrote.
    kaggle: the model on Kaggle, if it is one.
    urls: the texts under which TF-Hub may have cached it.
    download_url: where its archive can be downloaded without kagglehub; None if only Kaggle has it.
    hint: what else to write if it is not found; "" if there is nothing to say.
  """

  text: str
  kaggle: KaggleModel | None = None
  urls: tuple[str, ...] = ()
  download_url: str | None = None
  hint: str = ""


def parse_handle(text: str) -> Handle:
  """Returns what a handle names.

  Args:
    text: a Kaggle name (`owner/model/framework/variation`, with or without `/version`), an address of Kaggle, tfhub.dev
      or another server of modules, or a `gs://` address.

  Raises:
    HandleError: it is none of these.

  Example:
      >>> handle = parse_handle("https://www.kaggle.com/models/google/yamnet/frameworks/TensorFlow2/variations/yamnet")
      >>> str(handle.kaggle)
      'google/yamnet/TensorFlow2/yamnet'
      >>> parse_handle("gs://tfhub-modules/google/nnlm-en-dim50/2.tar.gz").download_url
      'https://tfhub.dev/google/nnlm-en-dim50/2'
  """
  scheme, separator, rest = text.partition("://")
  if not separator:
    return Handle(text, kaggle=_parse_name(text))
  if scheme == "kaggle":  # as Keras writes it
    return Handle(text, kaggle=_parse_name(rest))
  if scheme == "gs":
    return _parse_gcs(text)
  if scheme not in ("http", "https"):
    raise HandleError(f"{text!r}: the scheme {scheme!r} is not one of https, http, gs and kaggle.")
  return _parse_url(text)


def _parse_url(text: str) -> Handle:
  try:
    parts = urlsplit(text)
    host = parts.hostname or ""
  except ValueError as e:
    raise HandleError(f"{text!r} is not an address: {e}.") from e
  if not host or parts.username is not None or any(c.isspace() or not c.isprintable() for c in text):
    raise HandleError(f"{text!r} is not an address of a server; expected https://HOST/PATH.")
  plain = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
  if host in _KAGGLE_HOSTS:
    return Handle(text, kaggle=_parse_kaggle_path(text, parts.path), urls=_unique(text, plain))
  if host in _TFHUB_HOSTS:
    return _tfhub_handle(text, parts.path.strip("/"), plain)
  return Handle(text, urls=(text,), download_url=text)


def _parse_kaggle_path(text: str, path: str) -> KaggleModel:
  if not path.startswith("/models/"):
    raise HandleError(f"{text!r} is not the address of a model; expected https://www.kaggle.com/models/{_EXPECTED}.")
  name = path.removeprefix("/models/").strip("/")
  return _parse_name(_LONG_NAME.sub(lambda parts: "".join(f"/{part}" for part in parts.groups() if part), name))


def _parse_name(name: str) -> KaggleModel:
  match = _MODEL_NAME.fullmatch(name)
  if match is None or any(set(part) == {"."} for part in match.groups()[:4]):
    raise HandleError(
      f"{name!r}: no such file or folder, and not the handle of a hub module. Expected a path, the address of a "
      f"module, or a name on Kaggle: {_EXPECTED}, such as 'google/yamnet/tensorFlow2/yamnet/1'."
    )
  owner, model, framework, variation, version = match.groups()
  if version is not None and int(version) == 0:
    raise HandleError(f"{name!r}: versions on Kaggle begin at 1.")
  return KaggleModel(owner, model, framework, variation, None if version is None else int(version))


def _parse_gcs(text: str) -> Handle:
  if text.startswith(_TFHUB_BUCKET):
    path = text.removeprefix(_TFHUB_BUCKET).rstrip("/").removesuffix(_UNCOMPRESSED)
    for suffix in _ARCHIVE_SUFFIXES:
      path = path.removesuffix(suffix)
    return _tfhub_handle(text, path, text)
  if text.endswith(_ARCHIVE_SUFFIXES):
    return Handle(text, urls=(text,), download_url=_GCS + text.removeprefix("gs://"))
  raise HandleError(
    f"{text!r}: folders in buckets are not read; copy it with `gcloud storage cp -r {text} FOLDER` and load the folder."
  )


def _tfhub_handle(text: str, path: str, plain: str) -> Handle:
  if not path:
    raise HandleError(f"{text!r} does not name a model; expected {_TFHUB}PUBLISHER/MODEL/VERSION.")
  url = _TFHUB + path
  name = kaggle_name(path)
  urls = _unique(text, plain, url)
  if name is None:
    return Handle(text, urls=urls, download_url=url, hint=_MOVED.format(url=url))
  return Handle(text, _parse_name(name), urls, download_url=url)


def _unique(*texts: str) -> tuple[str, ...]:
  return tuple(dict.fromkeys(texts))
