"""The Python code that comes with an exported model: it loads and calls it, with JAX and safetensors alone."""

from collections.abc import Mapping
from typing import Any

__all__ = ["loading_code"]

_TEMPLATE = '''"""{title}

Needs jax and safetensors; neither graftax nor TensorFlow. Written for jax {jax_version}. JAX reads {program_file} for
six months. Every later graftax-xla-call-module reads {module_file}.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
from jax import export
from safetensors.flax import load_file

{x64}folder = Path(__file__).resolve().parent
params = load_file(folder / "{parameters_file}")


def read_program():
  try:
    return export.deserialize(bytearray((folder / "{program_file}").read_bytes())).call
  except ValueError as error:
    try:
      from graftax.xla_call_module import Module, lift, structured
    except ImportError:
      raise ValueError(f"this JAX does not read the program: {{error}} Install graftax-xla-call-module.") from error
    return structured(lift(Module.load(folder / "{module_file}")))


{compiled}

if __name__ == "__main__":
  inputs = {{
{inputs}
  }}
  outputs = predict(params, inputs{rng})
  for name, value in outputs.items():
    print(name, value.dtype, value.shape)
'''


_PLAIN = "predict = jax.jit(read_program())"
_WITH_OPTIONS = """def known_options(options):
  try:
    jax.jit(lambda: 0, compiler_options=options)()
  except jax.errors.JaxRuntimeError:  # another version of XLA
    return None
  return options


# Measured to be faster on CPUs. XLA's own choices: compiler_options=None.
options = known_options({options}) if jax.default_backend() == "cpu" else None
predict = jax.jit(read_program(), compiler_options=options)"""


def loading_code(manifest: Mapping[str, Any]) -> str:
  """Returns the text of `load.py` for an export with this manifest. Any: the manifest is JSON."""
  options = manifest.get("compiler_options", {}).get("cpu")
  inputs = [_input_line(name, tensor) for name, tensor in manifest["inputs"].items()]
  return _TEMPLATE.format(
    title=f"Signature {manifest['signature']!r} of a TensorFlow SavedModel, as a JAX function.",
    jax_version=manifest["jax_version"],
    program_file=manifest["program_file"],
    module_file=manifest["module_file"],
    parameters_file=manifest["parameters_file"],
    x64='jax.config.update("jax_enable_x64", True)\n' if manifest["x64"] else "",
    inputs="\n".join(inputs) or "    # takes none",
    compiled=_WITH_OPTIONS.format(options=options) if options else _PLAIN,
    rng=", jnp.zeros(2, jnp.uint32)" if manifest["rng"] else "",
  )


def _input_line(name: str, tensor: Mapping[str, Any]) -> str:
  shape = ", ".join(str(size) for size in tensor["example_shape"]) + ("," if len(tensor["example_shape"]) == 1 else "")
  return f"    {name!r}: jnp.zeros(({shape}), {tensor['dtype']!r}),  # {tensor['dtype']}[{', '.join(tensor['shape'])}]"
