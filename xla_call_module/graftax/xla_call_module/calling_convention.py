"""The calling convention of a module: its versions, and the types of arguments and results that a file declares."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np

from graftax.xla_call_module import errors, ir
from graftax.xla_call_module.exported.fields import ExportedFields
from graftax.xla_call_module.ir import ModuleIR
from graftax.xla_call_module.signature import Leaf, Signature

__all__ = [
  "NEWEST_CALL_MODULE_VERSION",
  "OLDEST_CALL_MODULE_VERSION",
  "ArgumentSpec",
  "argument_specs",
  "attribute_text",
  "check_version",
  "declared_spec",
  "dimension_argument",
  "is_integer_scalar",
  "main_function",
  "signature_with_donation",
]

# What each version of the calling convention added. All of it is in the module or in an attribute, so lifting does not
# ask for the version. Only `rewriting` does: it exports modules of versions before 5 again.
#   2: StableHLO in place of MHLO, with sizes as leading scalars (`dim_args_spec`).
#   3: `platforms`, and with several of them a leading scalar that selects one.
#   4: a portable artifact in place of text.
#   5: `function_list`, TensorFlow functions that the module calls.
#   6: `disabled_checks`, and `platforms` may not be empty.
#   7: `shape_assertion` ops, and "shape_assertions" among the disabled checks.
#   8: the module's attribute `jax.uses_shape_polymorphism`: shapes are refined only if it is there.
#   9: tokens, for effects in order; sizes and the platform are arguments marked `jax.global_constant`
#      (`patterns/platform_cases.py`, `lowerings/custom_call_targets.py`).
#  10: `use_shardy_partitioner`.
OLDEST_CALL_MODULE_VERSION = 2
NEWEST_CALL_MODULE_VERSION = 10

_DONATED = {"jax.buffer_donor", "tf.aliasing_output"}
# Between JAX 0.5 and 0.6 these two exchanged their numbers in files, without a new version of the format.
_EXCHANGED = {"float8_e4m3", "float8_e3m4"}


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentSpec:
  """Shape and dtype of an argument or result; an open dimension of a polymorphic module is None."""

  shape: tuple[int | None, ...]
  dtype: np.dtype

  def __str__(self) -> str:
    return str(ir.TensorType(self.shape, self.dtype))


def check_version(version: int, what: str) -> None:
  """Checks the version of a calling convention.

  Raises:
    VersionError: it is not one of those that this package follows.
  """
  if OLDEST_CALL_MODULE_VERSION <= version <= NEWEST_CALL_MODULE_VERSION:
    return
  hint = (
    "version 1 holds MHLO, which jaxlib no longer reads"
    if version < OLDEST_CALL_MODULE_VERSION
    else "export with an older calling convention"
  )
  raise errors.VersionError(
    f"{what} version {version} is not supported; expected {OLDEST_CALL_MODULE_VERSION} to"
    f" {NEWEST_CALL_MODULE_VERSION} ({hint})."
  )


def main_function(module_ir: ModuleIR) -> ir.Function:
  """Returns the function `main` of a module.

  Raises:
    UnsupportedModuleError: there is none.
  """
  if "main" not in module_ir.functions:
    raise errors.UnsupportedModuleError(
      f"module {module_ir.name!r} has no function 'main'; it has {', '.join(sorted(map(repr, module_ir.functions)))}."
      " Rename the function to call to 'main'."
    )
  return module_ir.main


def argument_specs(types: Sequence[ir.Type], what: str) -> tuple[ArgumentSpec, ...]:
  """Returns the types of the arguments or results of `main` without its tokens.

  Raises:
    UnsupportedModuleError: one of them, `what` ("argument", "result"), is not an array.
  """
  specs = []
  for kind in types:
    if isinstance(kind, ir.TokenType):
      continue
    if not isinstance(kind, ir.TensorType):
      raise errors.UnsupportedModuleError(f"main has a {what} of type {kind}, which has no counterpart in JAX.")
    specs.append(ArgumentSpec(kind.shape, kind.dtype))
  return tuple(specs)


def is_integer_scalar(kind: ir.Type) -> bool:
  """Returns whether a type can be that of a platform index or a dimension argument."""
  return isinstance(kind, ir.TensorType) and kind.shape == () and kind.dtype.kind in "iu"


def attribute_text(value: str | bytes) -> str:
  """Returns the text of an attribute of XlaCallModule.

  Raises:
    DecodeError: it is not UTF-8.
  """
  try:
    return value.decode() if isinstance(value, bytes) else str(value)
  except UnicodeDecodeError:
    raise errors.DecodeError(
      f"an attribute of XlaCallModule has the text {value[:50]!r}, which is not UTF-8."
    ) from None


def dimension_argument(spec: str | bytes) -> tuple[int, int]:
  """Returns the argument and the axis of an entry `"argument.axis"` of `dim_args_spec`.

  Raises:
    DecodeError: the entry has another form.
  """
  match = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", attribute_text(spec))
  if match is None:
    raise errors.DecodeError(f"dim_args_spec entry {spec[:50]!r} is not of the form 'argument.axis'.")
  return int(match[1]), int(match[2])


def signature_with_donation(fields: ExportedFields, main: ir.Function, has_index: bool) -> Signature:
  """Returns the signature with the arguments that `main` may overwrite."""
  pairs = zip(main.types, main.attrs, strict=True)
  attrs = [attrs for kind, attrs in pairs if not isinstance(kind, ir.TokenType)][has_index:]
  donated = {i for i, names in zip(fields.kept, attrs, strict=True) if _DONATED & set(names)}
  leaves = (dataclasses.replace(leaf, is_donated=i in donated) for i, leaf in enumerate(fields.signature.inputs))
  return dataclasses.replace(fields.signature, inputs=tuple(leaves))


def declared_spec(leaf: Leaf, kind: ir.Type | None, key_words: Mapping[str, tuple[int, ...]]) -> ArgumentSpec:
  """Returns the type of an argument or a result, which must be that of `main`.

  Args:
    leaf: the argument or result.
    kind: its type in `main`; None if `main` lacks it.
    key_words: dtypes of random keys, and the shape of the words of one key.

  Raises:
    DecodeError: `main` has another type.
  """
  shape = tuple(dim if isinstance(dim, int) else None for dim in leaf.shape)
  if leaf.dtype in key_words:
    spec = ArgumentSpec((*shape, *key_words[leaf.dtype]), np.dtype(np.uint32))
  else:
    # `main` has booleans in the place of float0.
    spec = ArgumentSpec(shape, np.dtype(np.bool_) if leaf.dtype == "float0" else jnp.dtype(leaf.dtype))
  if kind is None:
    return spec
  found = kind if isinstance(kind, ir.TensorType) else ir.TensorType((), np.dtype(np.void))
  if {leaf.dtype, found.dtype.name} == _EXCHANGED:
    spec = ArgumentSpec(shape, found.dtype)
  agrees = len(found.shape) == len(spec.shape) and all(
    None in pair or pair[0] == pair[1] for pair in zip(found.shape, spec.shape, strict=True)
  )
  if not agrees or found.dtype != spec.dtype:
    raise errors.DecodeError(f"main has {kind} in the place of {leaf}, as the Exported declares it.")
  return spec
