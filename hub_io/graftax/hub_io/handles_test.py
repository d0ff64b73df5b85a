import pytest

from graftax.hub_io.errors import HandleError
from graftax.hub_io.handles import Handle, KaggleModel, parse_handle
from graftax.hub_io.kaggle_names import _table

_YAMNET = KaggleModel("google", "yamnet", "tensorFlow2", "yamnet", 1)
_LONG = "https://www.kaggle.com/models/google/yamnet/frameworks/tensorFlow2/variations/yamnet/versions/1"


@pytest.mark.parametrize(
  ("text", "model"),
  [
    ("google/yamnet/tensorFlow2/yamnet/1", _YAMNET),
    ("google/yamnet/tensorFlow2/yamnet", KaggleModel("google", "yamnet", "tensorFlow2", "yamnet")),
    ("kaggle://google/yamnet/tensorFlow2/yamnet/1", _YAMNET),
    (_LONG, _YAMNET),
    (f"{_LONG}?tfhub-redirect=true", _YAMNET),
    (f"{_LONG}/", _YAMNET),
    ("https://kaggle.com/models/google/yamnet/tensorFlow2/yamnet/1", _YAMNET),
    (
      "https://www.kaggle.com/models/google/yamnet/frameworks/tensorFlow2/variations/yamnet",
      KaggleModel("google", "yamnet", "tensorFlow2", "yamnet"),
    ),
    # The fourth part is the variation, even if it is a number.
    (
      "https://www.kaggle.com/models/google/surfperch/TensorFlow2/1",
      KaggleModel("google", "surfperch", "TensorFlow2", "1"),
    ),
    ("https://tfhub.dev/google/yamnet/1", _YAMNET),
    ("gs://tfhub-modules/google/yamnet/1/uncompressed", _YAMNET),
  ],
)
def test_names_and_addresses_of_kaggle_models(text, model):
  assert parse_handle(text).kaggle == model
  assert parse_handle(str(model)).kaggle == model


@pytest.mark.parametrize(
  ("text", "urls", "download_url"),
  [
    ("https://tfhub.dev/a/b/1", ("https://tfhub.dev/a/b/1",), "https://tfhub.dev/a/b/1"),
    ("http://tfhub.dev/a/b/1/", ("http://tfhub.dev/a/b/1/", "http://tfhub.dev/a/b/1", "https://tfhub.dev/a/b/1"),
     "https://tfhub.dev/a/b/1"),
    ("https://hub.tensorflow.google.cn/a/b/1", ("https://hub.tensorflow.google.cn/a/b/1", "https://tfhub.dev/a/b/1"),
     "https://tfhub.dev/a/b/1"),
    ("gs://tfhub-modules/a/b/1.tar.gz", ("gs://tfhub-modules/a/b/1.tar.gz", "https://tfhub.dev/a/b/1"),
     "https://tfhub.dev/a/b/1"),
    ("gs://mine/b/1.tar.gz", ("gs://mine/b/1.tar.gz",), "https://storage.googleapis.com/mine/b/1.tar.gz"),
    ("https://example.com/m.tar.gz?key=1", ("https://example.com/m.tar.gz?key=1",),
     "https://example.com/m.tar.gz?key=1"),
    (f"{_LONG}?tfhub-redirect=true", (f"{_LONG}?tfhub-redirect=true", _LONG), None),
  ],
)  # fmt: skip
def test_addresses_that_tensorflow_hub_caches(text, urls, download_url):
  handle = parse_handle(text)
  assert (handle.urls, handle.download_url) == (urls, download_url)


def test_a_kaggle_name_has_no_other_address():
  assert parse_handle(str(_YAMNET)) == Handle(str(_YAMNET), kaggle=_YAMNET)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "no such file or folder, and not the handle"),
    ("no/such/folder", "no such file or folder, and not the handle"),
    ("/no/such/folder/here", "no such file or folder, and not the handle"),
    ("../a/b/c", "no such file or folder, and not the handle"),
    ("a/b/../c", "no such file or folder, and not the handle"),
    ("a/b/c/d/../e", "no such file or folder, and not the handle"),
    ("a/b/c/d/-1", "no such file or folder, and not the handle"),
    ("a/b/c/d/1.5", "no such file or folder, and not the handle"),
    ("a/b/c/d/0", "begin at 1"),
    ("a/b/c/d\n", "no such file or folder, and not the handle"),
    ("https://www.kaggle.com/datasets/a/b", "not the address of a model"),
    ("https://www.kaggle.com/models/google/yamnet", "no such file or folder, and not the handle"),
    ("https://tfhub.dev/", "does not name a model"),
    ("https://", "not an address of a server"),
    ("https://user:password@example.com/m.tar.gz", "not an address of a server"),
    ("https://exa mple.com/m", "not an address of a server"),
    ("https://[::1/m", "is not an address"),
    ("file:///etc/passwd", "the scheme 'file'"),
    ("s3://bucket/m.tar.gz", "the scheme 's3'"),
    ("gs://bucket/folder", "gcloud storage cp -r gs://bucket/folder"),
  ],
)
def test_other_texts_raise(text, message):
  with pytest.raises(HandleError, match=message):
    parse_handle(text)


def test_the_table_of_names_holds_names():
  assert all(str(parse_handle(kaggle).kaggle) == kaggle for kaggle in _table().values())
  assert list(_table()) == sorted(_table())
