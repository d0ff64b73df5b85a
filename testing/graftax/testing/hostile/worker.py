"""Runs cases in this process, for a parent that limits it: what one case does, and the loop that answers."""

import contextlib
import ctypes
import os
import resource
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from graftax.graphdef_ir import GraftaxError
from graftax.testing.child_process import serve
from graftax.testing.hostile.case import CaseId
from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.oracle import judge
from graftax.testing.hostile.registry import Attempt, Box, Template, find_template
from graftax.testing.hostile.watch import Canaries, Watch, plant
from graftax.testing.pytrees import Json

__all__ = ["TYPED", "main", "run_case"]

# What a caller may expect of a bad file.
TYPED = (GraftaxError, FileNotFoundError)
_MOST_DETAIL = 600
_PR_SET_PDEATHSIG = 1
# Beyond what the process has mapped: a limit behind the parent's, which looks only from time to time.
_ADDRESS_SPACE_BYTES = 8 << 30

Say = Callable[[Json], None]


def main(find: Callable[[str, str], Template] = find_template) -> None:
  """Runs the cases of the parent's request.

  Args:
    find: returns the template of a kind and a name.
  """
  request, say = serve()
  _die_with_the_parent()
  watch = Watch()
  jax.block_until_ready(jax.jit(lambda x: x + 1)(np.zeros(2, np.float32)))  # XLA's threads begin here
  say({"phase": "ready"})
  for text in request["cases"]:
    case_id = CaseId.parse(text)
    say(run_case(case_id, find(case_id.kind, case_id.template), watch, say, oracle=request["oracle"]))


def _die_with_the_parent() -> None:
  """Ends this process when its parent is killed, even if a reader hangs. Linux only."""
  if sys.platform.startswith("linux"):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run_case(case_id: CaseId, template: Template, watch: Watch, say: Say, *, oracle: bool = False) -> dict[str, Json]:
  """Returns what came of a case, as JSON; tells `say` before the file is read and before TensorFlow judges it."""
  with tempfile.TemporaryDirectory(prefix="graftax_hostile_", ignore_cleanup_errors=True) as root, _inside(Path(root)):
    box = Box(Path(root, "model"), Path(root, "outside"), secrets.token_hex(16).encode())
    box.model.mkdir()
    plant(box.outside, box.secret)
    draw = Draw(case_id)
    answer: dict[str, Json] = {"phase": "done", "case": str(case_id)}
    try:
      attempt = template(draw, box)
    except Exception:
      return {
        **answer,
        "outcome": "broken",
        "detail": traceback.format_exc()[-_MOST_DETAIL:],
        "decisions": draw.decisions,
      }
    answer["decisions"] = draw.decisions
    say({"phase": "read", "decisions": draw.decisions, "memory_mib": attempt.memory_mib})
    answer |= _watched(attempt, box, watch)
    value = answer.pop("value")
    if oracle and attempt.graph is not None and answer["outcome"] == "loaded":
      say({"phase": "oracle"})
      refusal = judge(attempt.graph, value)
      if refusal:
        answer |= {"outcome": "accepted", "detail": f"TensorFlow: {refusal}"[:_MOST_DETAIL]}
    return answer


@contextlib.contextmanager
def _inside(root: Path) -> Iterator[None]:
  """Makes a folder for scratch files the current one, so that relative paths do not lead to the model."""
  scratch = root / "scratch"
  scratch.mkdir()
  before, tempfile.tempdir = os.getcwd(), str(scratch)
  os.chdir(scratch)
  try:
    yield
  finally:
    os.chdir(before)
    tempfile.tempdir = None
    shutil.rmtree(scratch, ignore_errors=True)


def _watched(attempt: Attempt, box: Box, watch: Watch) -> dict[str, Json]:
  """Reads the file; returns outcome, detail, processor time, memory and the value."""
  canaries = Canaries(box.outside)
  resource.setrlimit(resource.RLIMIT_AS, (_mapped_bytes() + _ADDRESS_SPACE_BYTES, resource.RLIM_INFINITY))
  with contextlib.suppress(OSError):
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
  before, start = _status_mib("VmRSS"), time.process_time()
  watch.start([box.model, box.model.parent / "scratch"])
  value, error = None, None
  try:
    value = attempt.read()
  except BaseException as e:
    error = e
  opened = watch.stop()
  seconds, memory = time.process_time() - start, _status_mib("VmHWM") - before
  resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
  opened += [f"outside/{name}" for name in canaries.touched()]
  canaries.close()
  if _holds(value, box.secret) or (error is not None and box.secret.decode() in str(error)):
    opened.append("the bytes of a file outside are in the result")
  outcome, detail = ("outside", "; ".join(opened)) if opened else _outcome(attempt, value, error)
  return {"outcome": outcome, "detail": detail[:_MOST_DETAIL], "seconds": seconds, "memory": memory, "value": value}


def _outcome(attempt: Attempt, value: Any, error: BaseException | None) -> tuple[str, str]:
  if isinstance(error, MemoryError):
    return "memory", _text(error)
  if error is not None and not isinstance(error, TYPED):
    return "untyped", _text(error)
  if error is not None:
    return ("unread" if attempt.expectation == "loaded" else "refused"), _text(error)
  if attempt.expectation == "refused":
    return "accepted", f"returned {value!r}"
  try:
    if attempt.check is not None:
      attempt.check(value)
  except AssertionError as e:
    return "wrong", str(e)
  return "loaded", ""


def _text(error: BaseException) -> str:
  frames = traceback.extract_tb(error.__traceback__)
  ours = [f for f in frames if "graftax" in f.filename] or frames
  where = f" at {'/'.join(Path(ours[-1].filename).parts[-2:])}:{ours[-1].lineno}" if ours else ""
  return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}{where}"


def _holds(value: Any, secret: bytes) -> bool:
  for leaf in jax.tree.leaves(value):
    if isinstance(leaf, np.ndarray) and leaf.dtype == object:
      if any(_holds(element, secret) for element in leaf.flat):
        return True
    elif isinstance(leaf, np.ndarray | jax.Array):
      if leaf.size < 1 << 16 and secret in np.asarray(leaf).tobytes():
        return True
    elif secret in (leaf if isinstance(leaf, bytes) else str(leaf).encode(errors="replace")):
      return True
  return False


def _mapped_bytes() -> int:
  return int(_status_mib("VmSize")) << 20


def _status_mib(field: str) -> float:
  with open("/proc/self/status", encoding="utf-8") as f:
    return next((int(line.split()[1]) / 1024 for line in f if line.startswith(f"{field}:")), 0.0)
