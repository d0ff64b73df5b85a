"""Runs models that were written as source. Runs alone, in an environment with jax and numpy, without graftax.

python run_written.py FOLDER...
"""

import importlib.util
import json
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Array: TypeAlias = jax.Array | np.ndarray

PyTree: TypeAlias = Any
"""Nested containers and their leaves, as `jax.tree` takes them; graftax has no part here."""


def write_arrays(path: str, arrays: dict[str, np.ndarray]) -> None:
  """Writes arrays by name; numpy's files have no bfloat16, so each array is bytes, with dtype and shape in its name."""
  named = {f"{name}|{a.dtype.name}|{','.join(map(str, a.shape))}": a for name, a in arrays.items()}
  raw = {name: np.frombuffer(np.ascontiguousarray(a).tobytes(), np.uint8) for name, a in named.items()}
  with open(path, "wb") as file:
    np.savez(file, allow_pickle=False, **raw)


def read_arrays(path: str) -> dict[str, np.ndarray]:
  """Returns what `write_arrays` wrote."""
  found: dict[str, np.ndarray] = {}
  with np.load(path) as stored:
    for key in stored.files:
      name, dtype, shape = key.rsplit("|", 2)
      sizes = [int(size) for size in shape.split(",") if size]
      found[name] = np.frombuffer(stored[key].tobytes(), jnp.dtype(dtype)).reshape(sizes)
  return found


def nested(flat: Mapping[str, Array]) -> PyTree:
  """Returns arrays nested as the text reads them; "blocks/[0]/kernel" is ["blocks"][0]["kernel"]."""
  tree: dict[str, PyTree] = {}
  for path, array in flat.items():
    *groups, key = path.split("/")
    node = tree
    for group in groups:
      node = node.setdefault(group, {})
    node[key] = array

  def lists(node: PyTree) -> PyTree:
    if not isinstance(node, dict):
      return node
    if node and all(key.startswith("[") for key in node):
      return [lists(node[f"[{i}]"]) for i in range(len(node))]
    return {key: lists(inner) for key, inner in node.items()}

  return lists(tree)


def flattened(tree: PyTree, path: str = "") -> dict[str, Array]:
  """Returns the leaves of nested arrays by the paths that `nested` reads."""
  if isinstance(tree, dict):
    pairs = list(tree.items())
  elif isinstance(tree, list):
    pairs = [(f"[{i}]", inner) for i, inner in enumerate(tree)]
  else:
    return {path: tree}
  return {k: v for key, inner in pairs for k, v in flattened(inner, f"{path}/{key}" if path else key).items()}


def is_inexact(x: Array) -> bool:
  return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def weighted(results: PyTree) -> Array:
  """Returns a sum of all results that have derivatives, with other weights for each element."""
  total = jnp.zeros(())
  for leaf in jax.tree.leaves(results):
    if is_inexact(leaf) and leaf.size:
      weights = jnp.cos(jnp.arange(leaf.size, dtype=jnp.float32)).reshape(leaf.shape)
      total = total + jnp.sum(weights * jnp.real(leaf).astype(jnp.float32))
  return total


def instructions(compiled: Any) -> int:
  """Returns how many instructions a compiled program has."""
  return sum(" = " in line for line in compiled.as_text().splitlines())


def gradients(
  function: Callable[..., Any], params: Mapping[str, Array], inputs: Sequence[Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
  """Returns derivatives of the weighted sum with respect to parameters and inputs, by name."""
  moving = {name: x for name, x in params.items() if is_inexact(x)}
  some = {str(i): x for i, x in enumerate(inputs) if is_inexact(x)}

  def loss(moving: dict[str, Array], some: dict[str, Array]) -> Array:
    given = [some.get(str(i), x) for i, x in enumerate(inputs)]
    return weighted(function({**params, **moving}, *given))

  # LLVM compiles large gradients for minutes, and this changes no operation.
  quick = {"xla_backend_optimization_level": 0}
  return jax.jit(jax.grad(loss, (0, 1))).lower(moving, some).compile(compiler_options=quick)(moving, some)


def difference(found: Array, wanted: np.ndarray) -> float:
  """Returns the largest difference, relative to the largest finite element or 1; infinite if the kinds differ."""
  found = np.asarray(found)
  if found.shape != wanted.shape or found.dtype != wanted.dtype:
    return float("inf")
  if found.tobytes() == wanted.tobytes() or not found.size:
    return 0.0
  kind = np.complex128 if found.dtype.kind == "c" else np.float64
  a, b = found.astype(kind), wanted.astype(kind)
  both = (a == b) | ((a != a) & (b != b))
  if not np.isfinite(a[~both]).all() or not np.isfinite(b[~both]).all():
    return float("inf")
  finite = np.abs(b[np.isfinite(b)])
  return float(np.max(np.abs(a - b), where=~both, initial=0.0) / max(1.0, np.max(finite, initial=0.0)))


def run(folder: pathlib.Path) -> dict[str, Any]:
  """Returns what was found of one model."""
  facts = json.loads((folder / "facts.json").read_text())
  jax.config.update("jax_enable_x64", facts["x64"])
  spec = importlib.util.spec_from_file_location("written", folder / "model.py")
  assert spec is not None and spec.loader is not None
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  if any(name.split(".")[0] == "graftax" for name in sys.modules):
    raise RuntimeError("graftax was imported")
  flat = read_arrays(str(folder / "params.npz"))
  constants = [read_arrays(str(folder / "constants.npz"))] * facts["has_constants"]
  inputs = list(read_arrays(str(folder / "inputs.npz")).values())
  wanted = read_arrays(str(folder / "results.npz"))

  def function(params: dict[str, Array], *arrays: Array) -> PyTree:
    return module.model(*[nested(params)] * facts["has_parameters"], *constants, *arrays)

  compiled = jax.jit(function).lower(flat, *inputs).compile()
  found = {f"value/{i}": leaf for i, leaf in enumerate(jax.tree.leaves(compiled(flat, *inputs)))}
  if facts["has_gradient"]:
    of_params, of_inputs = gradients(function, flat, inputs)
    found |= {f"gradient/params/{k}": v for k, v in of_params.items()}
    found |= {f"gradient/inputs/{k}": v for k, v in of_inputs.items()}
  names = {kind: {n for n in wanted if n.startswith(kind)} for kind in ("value", "gradient")}
  if (
    not names["value"]
    or names["value"] != {n for n in found if n.startswith("value")}
    or not names["gradient"] <= set(found)
  ):
    raise RuntimeError(f"results {sorted(found)[:9]} instead of {sorted(wanted)[:9]}")
  differences = {
    kind: max(difference(found[name], wanted[name]) for name in some) for kind, some in names.items() if some
  }
  return {"instructions": instructions(compiled), **differences}


if __name__ == "__main__":
  for given in sys.argv[1:]:
    try:
      row = run(pathlib.Path(given))
    except Exception as e:
      row = {"error": f"{type(e).__name__}: {str(e)[:300]}"}
    print(json.dumps({"path": given, **row}), flush=True)
