"""Writes which custom calls each release of TensorFlow runs, the table of graftax.xla_call_module.exporting.

    python -m graftax.tools.codegen.generate_custom_call_targets            # renew the row of the installed TensorFlow
    python -m graftax.tools.codegen.generate_custom_call_targets PYTHON...  # those of other interpreters' TensorFlow
    python -m graftax.tools.codegen.generate_custom_call_targets --check    # exit 1 if a row is missing or wrong

TensorFlow has no list of them, since its compiler expands or removes many. So each candidate becomes a small module
that TensorFlow compiles and runs on CPU as an XlaCallModule node. Candidates are the targets that JAX's lowering rules
write, and names of custom calls that occur as strings in TensorFlow's library. Rows of other releases stay. For a
release that is not installed, install it in a virtual environment, and pass the interpreter of that environment.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from graftax.tools.codegen.generated_file import REPOSITORY, Release, run_release_generator
from graftax.xla_call_module import mlir

_MODULE = "graftax.tools.codegen.generate_custom_call_targets"
_TARGET = REPOSITORY / "xla_call_module/graftax/xla_call_module/exporting/custom_call_targets.py"

Table = Mapping[Release, Collection[str]]

_SAME = "(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>"
_PAIR = "(%x) : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)"
_TOP = "(%x) : (tensor<4x4xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)"
_LAYOUT = "dense<[0, 1]> : tensor<2xindex>"

# Target: attributes, and operands with the type of the call.
_CALLS: dict[str, tuple[str, str]] = {
  "AllocateBuffer": ("", "() : () -> tensor<4x4xf32>"),
  "Eigh": ('backend_config = "1,1,100,1e-6"', _PAIR),
  "GlobalToLocalShape": ("", _SAME),
  "LayoutConstraint": (f"operand_layouts = [{_LAYOUT}], result_layouts = [{_LAYOUT}]", _SAME),
  "LuDecomposition": ("", "(%x) : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xi32>, tensor<4xi32>)"),
  "MoveToDevice": ("", _SAME),
  "MoveToHost": ("", _SAME),
  "ProductOfElementaryHouseholderReflectors": ("", "(%x, %t) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>"),
  "Qr": ("", _PAIR),
  "SPMDFullToShardShape": ('mhlo.sharding = "{manual}"', _SAME),
  "SPMDShardToFullShape": ('mhlo.sharding = "{replicated}"', _SAME),
  "Sharding": ('mhlo.sharding = "{replicated}"', _SAME),
  "TopK": ("", _TOP),
  "__gpu$xla.gpu.triton": ("", _SAME),
  "annotate_device_placement": ('mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}', _SAME),
  "cu_threefry2x32_ffi": ("", _SAME),
  "lapack_sgeqrf_ffi": ("", _PAIR),
  "lapack_sgesdd": ("", _PAIR),
  "mhlo.erf": ("mhlo.attributes = {}, mhlo.version = 1 : i64", _SAME),
  "mhlo.topk": ("mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64", _TOP),
  "mosaic_gpu_v2": ("", _SAME),
  "shape_assertion": ('error_message = "never", has_side_effect = true', "(%p) : (tensor<i1>) -> ()"),
  "tpu_custom_call": ("", _SAME),
  "xla.sdy.GlobalToLocalShape": ("", _SAME),
}

# Target: a function of `[n, 4]` that JAX exports as this call.
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
  "ApproxTopK": lambda x: jax.lax.approx_max_k(x[:4], 2)[0],
  "stablehlo.dynamic_reduce_window": lambda x: jnp.cumsum(x, axis=0),
  "stablehlo.dynamic_rng_bit_generator": lambda x: x + jax.random.uniform(jax.random.key(0, impl="rbg"), x.shape),
}

# Version 0.14.24 of StableHLO, which all releases of the table read.
_OLDEST = (0, 14, 24)

# Runs in the other interpreter, which need not have this package. A call that a release does not know may abort.
_PROBE = """
import base64, json, os, sys
import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla
ran = []
for target, module in json.load(sys.stdin).items():
  child = os.fork()
  if not child:
    try:
      def call(x):
        return xla.call_module([x], version=6, module=base64.b64decode(module), Tout=[tf.float32],
          Sout=[tf.TensorShape(None)], platforms=["CPU"])
      tf.function(call, autograph=False)(np.eye(4, dtype=np.float32))
    except Exception:
      os._exit(1)
    os._exit(0)
  if os.waitpid(child, 0)[1] == 0:
    ran.append(target)
print(json.dumps([tf.__version__, ran]))
"""


def candidate_modules() -> dict[str, bytes]:
  """Returns a module for each candidate that calls it and takes and returns float32 arrays."""
  made = {target: mlir.serialize(_text(target, *call), version="0.14.24") for target, call in _CALLS.items()}
  (n,) = jax.export.symbolic_shape("n")
  sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(jax.devices()[:1], ("i",)), jax.P())
  sharded = {"xla.sdy.FuncResultSharding": jax.jit(lambda x: x + 1, out_shardings=sharding)}
  for target, function in (_FUNCTIONS | sharded).items():
    exported = jax.export.export(jax.jit(function), platforms=["cpu"])(jax.ShapeDtypeStruct((n, 4), jnp.float32))
    # As for several devices, for which annotations are not removed.
    made[target], _ = mlir.legalize(exported.mlir_module_serialized, version=_OLDEST, num_devices=2)
  return made


def _text(target: str, attributes: str, call: str) -> str:
  operands, kind = call.split(" : ", 1)
  results = kind.split("->")[1].strip(" ()").split(", ")
  value = "%t" if results == [""] else "%r" if len(results) == 1 else "%r#0"
  of = results[0] or "tensor<4xf32>"
  bound = "" if results == [""] else "%r = " if len(results) == 1 else f"%r:{len(results)} = "
  return f"""
    func.func public @main(%x: tensor<4x4xf32>) -> {of} {{
      %t = stablehlo.constant dense<0.5> : tensor<4xf32>
      %p = stablehlo.constant dense<true> : tensor<i1>
      {bound}stablehlo.custom_call @"{target}"{operands} {{{attributes}}} : {kind}
      return {value} : {of}
    }}"""


def read_targets(interpreter: str) -> Table:
  """Returns the row of the TensorFlow of a Python interpreter."""
  modules = {target: base64.b64encode(module).decode() for target, module in candidate_modules().items()}
  done = subprocess.run(
    [interpreter, "-c", _PROBE],
    input=json.dumps(modules),
    env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
    check=True,
    capture_output=True,
    text=True,
  )
  release, ran = json.loads(done.stdout.splitlines()[-1])
  major, minor = map(int, release.split(".")[:2])
  return {(major, minor): tuple(sorted(ran))}


def format_table(table: Table) -> str:
  """Returns the text of the module with the table."""
  everywhere = sorted(set.intersection(*map(set, table.values())))
  more = {release: sorted(set(row) - set(everywhere)) for release, row in sorted(table.items())}
  rows = "".join(f'  "{target}",\n' for target in everywhere)
  own = "".join(f"  {release}: ({_lines(row)}),\n" for release, row in more.items())
  return (
    '"""The custom calls that each release of TensorFlow runs on CPU; renewed by\n'
    'graftax/tools/codegen/generate_custom_call_targets.py."""\n\n'
    '__all__ = ["CUSTOM_CALL_TARGETS"]\n\n'
    f"_ALL_RELEASES = (\n{rows})\n\n"
    f"_MORE: dict[tuple[int, int], tuple[str, ...]] = {{\n{own}}}\n\n"
    "CUSTOM_CALL_TARGETS = {release: frozenset((*_ALL_RELEASES, *more)) for release, more in _MORE.items()}\n"
  )


def _lines(row: Sequence[str]) -> str:
  """Returns the items of a tuple, a line each as the formatter has them, so that the check can compare texts."""
  return "\n" + "".join(f'    "{target}",\n' for target in row) + "  " if row else ""


def main(args: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status."""
  return run_release_generator(__doc__ or "", _MODULE, _TARGET, read_targets, format_table, args)


if __name__ == "__main__":
  sys.exit(main())
