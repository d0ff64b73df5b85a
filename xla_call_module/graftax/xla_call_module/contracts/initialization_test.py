"""Programs that call kernels of jaxlib run as the first act of a process, lifted and embedded, jit and eager."""

import functools
import itertools
import subprocess
import sys

import jax
import jax.experimental.sparse
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

_SQUARE = np.random.default_rng(0).standard_normal((2, 5, 5)).astype(np.float32)
_POSITIVE = _SQUARE @ _SQUARE.mT + 5 * np.eye(5, dtype=np.float32)
_VECTOR = np.arange(1, 6, dtype=np.float32)


def _sparse(x):
  rows = np.array([0, 2, 3, 3, 5, 6]), np.array([0, 4, 1, 2, 3, 0])
  values = np.arange(6, dtype=np.float32)
  return jax.experimental.sparse.BCSR((values, rows[1], rows[0]), shape=(5, 5)) @ x


def _normal(x):
  return jax.random.normal(jax.random.wrap_key_data(x.view(np.uint32)[:2]), (7,))


PROGRAMS = {
  "cholesky": (lax.linalg.cholesky, _POSITIVE),
  "eigh": (lax.linalg.eigh, _POSITIVE),
  "svd": (lax.linalg.svd, _SQUARE),
  "svd without vectors": (functools.partial(lax.linalg.svd, compute_uv=False), _SQUARE[:, :3]),
  "qr": (lax.linalg.qr, _SQUARE[:, :, :3]),
  "pivoted qr": (functools.partial(lax.linalg.qr, pivoting=True), _SQUARE),
  "solve": (lambda a: jnp.linalg.solve(a, a.mT), _SQUARE),
  "lu": (lax.linalg.lu, _SQUARE),
  "triangular solve": (lambda a: lax.linalg.triangular_solve(a, a.mT, lower=True), _POSITIVE),
  "eig": (lax.linalg.eig, _SQUARE),
  "schur": (lax.linalg.schur, _SQUARE),
  "hessenberg": (lax.linalg.hessenberg, _SQUARE),
  "tridiagonal": (lambda a: lax.linalg.tridiagonal(a), _POSITIVE),
  "tridiagonal solve": (lambda d: lax.linalg.tridiagonal_solve(d / 9, d, d / 9, d[:, None]), _VECTOR),
  "fft": (jnp.fft.fft, _SQUARE),
  "sort": (lambda x: lax.sort_key_val(x, x * 2), _VECTOR[::-1].copy()),
  "sparse": (_sparse, _VECTOR),
  "normal": (_normal, _VECTOR),
}
_CHILD = """
import sys, numpy as np, jax
from graftax.xla_call_module import Module, embed, lift
_, way, mode, folder = sys.argv
with open(folder + "/module") as file:
  module = Module.from_text(file.read())
function = {"lift": lift, "embed": embed}[way](module)
results = (jax.jit(function) if mode == "jit" else function)(np.load(folder + "/x.npy"))
for i, result in enumerate(results):
  np.testing.assert_allclose(result, np.load(f"{folder}/{i}.npy"), rtol=1e-4, atol=1e-5)
print("done")
"""


def _write(name, folder):
  function, x = PROGRAMS[name]
  (folder / "module").write_text(jax.jit(function).lower(x).as_text())
  np.save(folder / "x.npy", x)
  for i, result in enumerate(jax.tree.leaves(function(x))):
    np.save(folder / f"{i}.npy", result)


def _run_first(folder, way, mode):
  command = [sys.executable, "-c", _CHILD, way, mode, str(folder)]
  found = subprocess.run(command, capture_output=True, text=True, timeout=300)
  assert found.stdout == "done\n", f"{way} {mode}: exit {found.returncode}\n{found.stderr[-2000:]}"


@pytest.mark.parametrize(("name", "mode"), [("solve", "jit"), ("sparse", "eager")])
def test_an_embedded_program_is_the_first_act_of_a_process(name, mode, tmp_path):
  _write(name, tmp_path)
  _run_first(tmp_path, "embed", mode)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_is_the_first_act_of_a_process_in_every_way(name, tmp_path):
  _write(name, tmp_path)
  for way, mode in itertools.product(("embed", "lift"), ("jit", "eager")):
    _run_first(tmp_path, way, mode)
