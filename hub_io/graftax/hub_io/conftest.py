"""Servers on the loopback interface that stand in for tfhub.dev and Kaggle, and empty caches."""

import http.server
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_DATA = Path(__file__).parent / "testdata/2026_11_22"
# kagglehub talks to this port if KAGGLE_API_ENVIRONMENT is TEST.
_KAGGLE_PORT = 7777
_PORT_WAIT_S = 60

# Returns status, headers and body for the path and the body of a request.
Answer = Callable[[str, bytes], tuple[int, dict[str, str], bytes]]


class Server:
  """Answers requests of any method, each in a thread of its own, and keeps their paths."""

  def __init__(self, port: int, answer: Answer):
    self.answer = answer
    self.paths: list[str] = []
    outer = self

    class Handler(http.server.BaseHTTPRequestHandler):
      def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        outer.paths.append(self.path)
        status, headers, data = outer.answer(self.path, body)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
          self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

      do_POST = do_GET

      def log_message(self, *arguments: object) -> None:
        pass

    self._server = http.server.ThreadingHTTPServer(("localhost", port), Handler)
    self.url = f"http://localhost:{self._server.server_port}"
    threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

  def close(self) -> None:
    self._server.shutdown()
    self._server.server_close()


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
  """Empty caches in the folder of the test: `tfhub` and `kaggle`."""
  monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "tfhub"))
  monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
  return tmp_path


def packed(module: str) -> bytes:
  """Returns one of the test modules as a .tar.gz."""
  buffer = io.BytesIO()
  with tarfile.open(fileobj=buffer, mode="w:gz", dereference=True) as tar:  # under Bazel the files are links
    tar.add(_DATA / module, ".")
  return buffer.getvalue()


@pytest.fixture
def tfhub_server() -> Iterator[Server]:
  """A server that has the TF2 module at every address, as an archive."""
  archive = packed("tf2_module")
  server = Server(0, lambda path, body: (200, {"Content-Type": "application/x-tar-gz"}, archive))
  yield server
  server.close()


@pytest.fixture
def kaggle_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
  """A server of Kaggle's API that has version 3 of every model, which is the TF2 module, and no other version."""
  monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "TEST")
  monkeypatch.setenv("KAGGLE_CONFIG_DIR", str(tmp_path / "no_credentials"))
  deadline = time.monotonic() + _PORT_WAIT_S
  while True:
    try:
      server = Server(_KAGGLE_PORT, answer_as_kaggle)
      break
    except OSError:  # another run of this test has the port
      if time.monotonic() > deadline:
        raise
      time.sleep(0.2)
  yield server
  server.close()


def answer_as_kaggle(path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
  """Answers the three requests with which kagglehub downloads a model."""
  request = json.loads(body or b"{}")
  folder = _DATA / "tf2_module"
  if path.endswith("/GetModelInstance"):
    return _json({"versionNumber": 3})
  if request.get("versionNumber") != 3:
    return 404, {"Content-Type": "application/json"}, b'{"code": 404, "message": "no such version"}'
  if path.endswith("/ListModelInstanceVersionFiles"):
    files = [str(file.relative_to(folder)) for file in sorted(folder.rglob("*")) if file.is_file()]
    return _json({"files": [{"name": name} for name in files], "nextPageToken": ""})
  return 200, {"Content-Type": "application/octet-stream"}, (folder / request["path"]).read_bytes()


def _json(value: object) -> tuple[int, dict[str, str], bytes]:
  return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()
