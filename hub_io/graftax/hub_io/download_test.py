"""Modules on servers, on the loopback interface: tfhub.dev's protocol and Kaggle's API with kagglehub."""

import contextlib
import functools
import hashlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from graftax.graphdef_ir import LibraryNotFoundError
from graftax.hub_io import download, tfhub_cache
from graftax.hub_io import load as load_module
from graftax.hub_io.errors import (
  DamagedArchiveError,
  DamagedCacheWarning,
  DigestError,
  DownloadError,
  HandleError,
  ModuleNotCachedError,
  UnsafeArchiveError,
  UnsafeCacheError,
  UnsafeCacheWarning,
)

_EXPECTED = Path(__file__).parent / "testdata/2026_11_22/tf2_module.npz"
_KAGGLE = "owner/model/tensorFlow2/variation/3"
_LOAD = "import sys; from graftax.hub_io import load; print(load(sys.argv[1], allow_http=True).path)"

# The servers of these tests speak plain http.
load = functools.partial(load_module, allow_http=True)


def _check(module) -> None:
  expected = np.load(_EXPECTED)
  fn, params = module.convert()
  np.testing.assert_allclose(fn(params, x=expected["x"])[0]["y"], expected["serving_default"], rtol=1e-6)


def _entry(caches: Path, handle: str) -> Path:
  return caches / "tfhub" / hashlib.sha1(handle.encode()).hexdigest()


def _process(handle: str) -> subprocess.Popen[str]:
  environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
  command = [sys.executable, "-c", _LOAD, handle]
  return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _load_in_processes(handle: str, number: int) -> list[str]:
  """Loads a handle in several processes at once and returns where each found it."""
  processes = [_process(handle) for _ in range(number)]
  results = [process.communicate(timeout=120) for process in processes]
  assert [process.returncode for process in processes] == [0] * number, results
  return [output.splitlines()[-1] for output, _ in results]


# TF-Hub's protocol.


def test_a_module_is_downloaded_once_into_tensorflow_hubs_cache(tfhub_server, caches):
  handle = f"{tfhub_server.url}/publisher/model/1"
  module = load(handle)
  _check(module)
  assert module.path == str(_entry(caches, handle))
  assert tfhub_server.paths == ["/publisher/model/1?tf-hub-format=compressed"]
  description = Path(f"{module.path}.descriptor.txt").read_text()
  assert description.startswith(f"Module: {handle}\nDownload Time: ")
  tfhub_server.close()
  _check(load(handle, offline=True))
  assert load(handle).handle == handle


def test_queries_are_kept(tfhub_server):
  load(f"{tfhub_server.url}/m.tar.gz?key=a%2Fb")
  assert tfhub_server.paths == ["/m.tar.gz?key=a%2Fb&tf-hub-format=compressed"]


def test_a_damaged_copy_is_downloaded_again(tfhub_server, caches):
  handle = f"{tfhub_server.url}/publisher/model/1"
  path = Path(load(handle).path)
  os.truncate(path / "variables/variables.data-00000-of-00001", 3)
  with pytest.warns(DamagedCacheWarning, match=f"{path} is damaged .*data-00000.*; it is fetched again"):
    _check(load(handle))
  assert len(tfhub_server.paths) == 2
  assert sorted(p.name.removeprefix(path.name) for p in path.parent.iterdir()) == [
    "", ".descriptor.txt", ".graftax-lock",
  ]  # fmt: skip


def test_a_damaged_copy_is_kept_until_there_is_another(tfhub_server, caches):
  handle = f"{tfhub_server.url}/publisher/model/1"
  path = Path(load(handle).path)
  os.remove(path / "saved_model.pb")
  tfhub_server.answer = lambda request, body: (503, {}, b"")
  with pytest.warns(DamagedCacheWarning), pytest.raises(DownloadError, match="answers 503 Service Unavailable"):
    load(handle)
  assert (path / "variables").is_dir()


@pytest.mark.parametrize(
  ("answer", "error", "message"),
  [
    ((404, {}, b""), DownloadError, "answers 404 Not Found"),
    ((200, {"Content-Type": "text/html"}, b"<!DOCTYPE html>"), DamagedArchiveError, "begins with b'<!D'"),
    ((200, {"Content-Length": "100000"}, b"\x1f\x8b" + bytes(20)), DamagedArchiveError, "cut off"),
    ((200, {}, b""), DamagedArchiveError, "begins with b''"),
    ((302, {"Location": "file:///etc/passwd"}, b""), DownloadError, "302"),
    ((302, {"Location": "ftp://localhost/m.tar.gz"}, b""), DownloadError, "redirects to 'ftp://localhost/m.tar.gz'"),
    ((302, {"Location": "/again"}, b""), DownloadError, "redirect"),
  ],
)
def test_other_answers_are_errors_and_leave_nothing(tfhub_server, caches, answer, error, message):
  tfhub_server.answer = lambda path, body: answer
  handle = f"{tfhub_server.url}/publisher/model/1"
  with pytest.raises(error, match=f"{handle}.*{message}"):
    load(handle)
  assert [path.suffix for path in (caches / "tfhub").iterdir()] == [".graftax-lock"]


def test_a_connection_that_breaks_or_hangs_is_an_error(tfhub_server, monkeypatch):
  monkeypatch.setattr(download, "_TIMEOUT_S", 0.2)
  handle = f"{tfhub_server.url}/publisher/model/1"
  released = threading.Event()
  tfhub_server.answer = lambda path, body: (released.wait(10), {}, b"")
  with pytest.raises(DownloadError, match=f"{handle}: cannot be downloaded: .*timed out"):
    load(handle)
  released.set()
  tfhub_server.close()
  with pytest.raises(DownloadError, match="cannot be downloaded: .*refused"):
    load(handle)


def test_a_redirect_to_https_is_followed_and_back_to_http_is_not():
  import urllib.request

  def redirect(start: str, target: str) -> urllib.request.Request | None:
    options = download.DownloadOptions(allow_hosts=("storage.example",))
    return download._Redirects(options).redirect_request(urllib.request.Request(start), None, 302, "Found", {}, target)

  assert redirect("https://tfhub.dev/a", "https://storage.example/a").full_url == "https://storage.example/a"
  assert redirect("http://tfhub.dev/a", "https://storage.example/a").full_url == "https://storage.example/a"
  with pytest.raises(DownloadError, match="redirects to 'http://storage.example/a'; expected an https address"):
    redirect("https://tfhub.dev/a", "http://storage.example/a")


def test_plain_http_needs_a_word(tfhub_server, caches):
  handle = f"{tfhub_server.url}/publisher/model/1"
  with pytest.raises(DownloadError, match=f"{handle}: not an https address.*pass allow_http=True"):
    load_module(handle)
  assert not tfhub_server.paths
  _check(load(handle))


def test_redirects_to_another_host_need_a_word_or_a_digest(tfhub_server):
  archive = tfhub_server.answer("", b"")
  elsewhere = tfhub_server.url.replace("localhost", "127.0.0.1") + "/other"
  tfhub_server.answer = lambda path, body: archive if "other" in path else (302, {"Location": elsewhere}, b"")
  handle = f"{tfhub_server.url}/publisher/model/1"
  with pytest.raises(DownloadError, match=r"redirects to another host, .*127.0.0.1.*allow_hosts=\['127.0.0.1'\]"):
    load(handle)
  assert not any("other" in path for path in tfhub_server.paths)
  _check(load(handle, allow_hosts=["127.0.0.1"]))
  _check(load(handle, sha256=hashlib.sha256(archive[2]).hexdigest()))


def test_a_redirect_on_the_same_host_is_followed(tfhub_server):
  archive = tfhub_server.answer("", b"")
  there = f"{tfhub_server.url}/other"
  tfhub_server.answer = lambda path, body: archive if "other" in path else (302, {"Location": there}, b"")
  _check(load(f"{tfhub_server.url}/publisher/model/1"))


def test_a_digest_is_checked_before_anything_is_unpacked(tfhub_server, caches, monkeypatch):
  archive = tfhub_server.answer("", b"")[2]
  handle, digest = f"{tfhub_server.url}/publisher/model/1", hashlib.sha256(archive).hexdigest()
  unpacked = []
  extract = download.extract_archive
  monkeypatch.setattr(download, "extract_archive", lambda *a, **k: (unpacked.append(1), extract(*a, **k)))
  with pytest.raises(DigestError, match=f"its SHA-256 digest is {digest}; expected {'0' * 64}"):
    load(handle, sha256="0" * 64)
  assert not unpacked
  assert not [path for path in (caches / "tfhub").iterdir() if path.suffix != ".graftax-lock"]
  # A copy that was unpacked from an unknown archive does not count.
  load(handle)
  with pytest.raises(DigestError):
    load(handle, sha256="0" * 64)
  for given in (digest, digest.upper(), f"sha256:{digest}"):
    _check(load(handle, sha256=given))
  assert len(tfhub_server.paths) == 4  # the copy of that archive is in the cache
  with pytest.raises(ValueError, match="expected the 64 hexadecimal digits"):
    load(handle, sha256="abc")


def test_the_digest_of_an_archive_on_the_disk_is_checked(tfhub_server, tmp_path):
  archive = tfhub_server.answer("", b"")[2]
  (tmp_path / "m.tar.gz").write_bytes(archive)
  _check(load_module(tmp_path / "m.tar.gz", sha256=hashlib.sha256(archive).hexdigest()))
  with pytest.raises(DigestError):
    load_module(tmp_path / "m.tar.gz", sha256="0" * 64)
  for handle in (tmp_path, _KAGGLE):
    with pytest.raises(HandleError, match="sha256 is the digest of an archive"):
      load_module(handle, sha256="0" * 64)


def test_a_download_that_drips_ends_at_its_time_limit(caches):
  listener = socket.create_server(("localhost", 0))

  def drip():
    connection, _ = listener.accept()
    with connection, contextlib.suppress(OSError):
      connection.recv(1 << 16)
      connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\xff")
      while True:
        connection.sendall(b"a")
        time.sleep(0.02)

  thread = threading.Thread(target=drip, daemon=True)
  thread.start()
  begin = time.monotonic()
  with listener, pytest.raises(DownloadError, match="takes longer than 0.5 s; pass a larger download_timeout_s"):
    load(f"http://localhost:{listener.getsockname()[1]}/publisher/model/1", download_timeout_s=0.5)
  assert time.monotonic() - begin < 10
  thread.join(10)


def test_only_their_owner_can_write_to_caches_that_are_made(tfhub_server, caches):
  load(f"{tfhub_server.url}/publisher/model/1")
  assert stat.S_IMODE((caches / "tfhub").stat().st_mode) == 0o700


def test_a_cache_that_all_can_write_to_is_warned_of(tfhub_server, caches):
  (caches / "tfhub").mkdir()
  (caches / "tfhub").chmod(0o777)
  with pytest.warns(UnsafeCacheWarning, match="all users of the machine can write .*chmod go-w"):
    load(f"{tfhub_server.url}/publisher/model/1")


def test_a_cache_of_another_user_among_temporary_files_is_refused(tfhub_server, tmp_path, monkeypatch):
  monkeypatch.delenv("TFHUB_CACHE_DIR")
  monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
  (tmp_path / "tfhub_modules").mkdir()
  monkeypatch.setattr(os, "getuid", lambda: (tmp_path / "tfhub_modules").stat().st_uid + 1)
  if (tmp_path / "tfhub_modules").stat().st_uid == 0:  # run by root, whose folders are trusted
    try:
      os.chown(tmp_path / "tfhub_modules", 12345, -1)
    except OSError:
      pytest.skip("a sandbox in which root is the only user")
  with pytest.raises(UnsafeCacheError, match="belongs to user .*TFHUB_CACHE_DIR"):
    load(f"{tfhub_server.url}/publisher/model/1")


def _slow_down(server) -> None:
  """Has the server take a second for each answer, so that the processes meet."""
  answer = server.answer

  def slowly(path: str, body: bytes):
    time.sleep(1)
    return answer(path, body)

  server.answer = slowly


def test_several_processes_download_once(tfhub_server, caches):
  _slow_down(tfhub_server)
  handle = f"{tfhub_server.url}/publisher/model/1"
  assert _load_in_processes(handle, 3) == [str(_entry(caches, handle))] * 3
  assert len(tfhub_server.paths) == 1


def test_a_process_that_was_killed_does_not_block_the_next(tfhub_server, caches):
  archive, begun = tfhub_server.answer("", b""), threading.Event()

  def never_ends(path: str, body: bytes):
    begun.set()
    return 200, {"Content-Length": "100000"}, archive[2][:1000]

  tfhub_server.answer = never_ends
  handle = f"{tfhub_server.url}/publisher/model/1"
  process = _process(handle)
  assert begun.wait(60)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  with pytest.raises(ModuleNotCachedError):
    load(handle, offline=True)
  tfhub_server.answer = lambda path, body: archive
  _check(load(handle))
  assert not list((caches / "tfhub").glob("*partial"))


def test_a_download_of_tensorflow_hub_is_waited_for(tfhub_server, caches, monkeypatch):
  monkeypatch.setattr(tfhub_cache, "_POLL_S", 0.01)
  handle = f"{tfhub_server.url}/publisher/model/1"
  lock = _entry(caches, handle).with_suffix(".lock")
  lock.parent.mkdir()
  lock.write_text("host.1.0123456789abcdef")
  modules = []
  thread = threading.Thread(target=lambda: modules.append(load(handle)))
  thread.start()
  time.sleep(0.5)
  assert not tfhub_server.paths
  lock.unlink()
  thread.join()
  _check(modules[0])


def test_an_abandoned_download_of_tensorflow_hub_is_not_waited_for(tfhub_server, caches):
  handle = f"{tfhub_server.url}/publisher/model/1"
  lock = _entry(caches, handle).with_suffix(".lock")
  lock.parent.mkdir()
  lock.write_text("host.1.0123456789abcdef")
  os.utime(lock, (time.time() - 3600,) * 2)
  _check(load(handle))


def test_an_unsafe_archive_on_a_server_leaves_nothing(tfhub_server, caches):
  header = bytearray(512)
  header[:5], header[156:157], header[257:263] = b"../up", b"0", b"ustar\0"
  header[100:108] = header[108:116] = header[116:124] = b"0000644\0"
  header[124:136] = header[136:148] = b"00000000000\0"
  header[148:156] = b" " * 8
  header[148:156] = b"%06o\0 " % sum(header)
  tfhub_server.answer = lambda path, body: (200, {}, bytes(header) + bytes(1024))
  with pytest.raises(UnsafeArchiveError, match=r"'\.\./up' is not a plain path"):
    load(f"{tfhub_server.url}/publisher/model/1")
  assert not list(caches.rglob("up"))


# Kaggle.


def test_a_kaggle_model_is_downloaded_once_by_kagglehub(kaggle_server, caches):
  module = load(_KAGGLE)
  _check(module)
  assert module.path == str(caches / "kaggle/models" / _KAGGLE)
  number = len(kaggle_server.paths)
  _check(load(_KAGGLE))
  _check(load("owner/model/tensorFlow2/variation", offline=True))
  assert len(kaggle_server.paths) == number


@pytest.mark.parametrize(
  "handle",
  [
    "owner/model/tensorFlow2/variation",
    "https://www.kaggle.com/models/owner/model/frameworks/TensorFlow2/variations/variation/versions/3",
    "kaggle://owner/model/tensorFlow2/variation",
  ],
)
def test_other_ways_to_write_a_kaggle_handle(kaggle_server, handle):
  module = load(handle)
  assert Path(module.path).name == "3"
  _check(module)


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index"])
def test_a_damaged_kaggle_model_is_downloaded_again(kaggle_server, name):
  path = Path(load(_KAGGLE).path)
  os.truncate(path / name, 20)
  with pytest.warns(DamagedCacheWarning, match=f"{path} is damaged"):
    _check(load(_KAGGLE))


def test_a_half_written_kaggle_model_is_completed(kaggle_server, caches):
  path = Path(load(_KAGGLE).path)
  path.with_name("3.complete").unlink()
  os.truncate(path / "saved_model.pb", 20)
  with pytest.warns(DamagedCacheWarning, match="half-written; it is fetched again"):
    _check(load(_KAGGLE))


def test_several_processes_download_from_kaggle_once(kaggle_server, caches):
  _slow_down(kaggle_server)
  assert _load_in_processes(_KAGGLE, 2) == [str(caches / "kaggle/models" / _KAGGLE)] * 2
  assert sum(path.endswith("/ListModelInstanceVersionFiles") for path in kaggle_server.paths) == 1


def test_kaggles_errors_are_ours(kaggle_server):
  with pytest.raises(DownloadError, match="owner/model/tensorFlow2/variation/4: kagglehub could not download it"):
    load("owner/model/tensorFlow2/variation/4")
  kaggle_server.close()
  with pytest.raises(DownloadError, match="refused"):
    load(_KAGGLE)


def test_without_kagglehub_the_error_says_what_to_install(monkeypatch):
  monkeypatch.setitem(sys.modules, "kagglehub", None)
  with pytest.raises(LibraryNotFoundError, match=r"pip install 'graftax-hub-io\[kaggle\]'"):
    load(_KAGGLE)
