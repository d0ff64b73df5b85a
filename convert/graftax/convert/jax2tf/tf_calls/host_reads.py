"""A JAX primitive that reads TensorFlow variables on the host whenever compiled code runs."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from graftax.convert.errors import ConversionError
from graftax.ops_jax import Array
from graftax.xla_call_module import mlir

if TYPE_CHECKING:
  from graftax.convert.jax2tf.tf_calls.variable_reads import VariableReads

__all__ = ["read_on_host"]

# A primitive of our own rather than `jax.pure_callback`, because its lowering can raise an error that says what to do
# if `jax.export` does not support the read. It has no operands, so it needs no rules for derivatives and batching.
_read_p = Primitive("read_tensorflow_variables")
_read_p.multiple_results = True


def read_on_host(reads: "VariableReads") -> tuple[Array, ...]:
  """Returns the values that the variables have when the code runs.

  Raises:
    ConversionError: from `jax.export`, which cannot write a call of this process.
  """
  return tuple(_read_p.bind(reads=reads))


@_read_p.def_impl
def _impl(*, reads: "VariableReads") -> list[Array]:
  return [jnp.asarray(value) for value in reads.read()]


@_read_p.def_abstract_eval
def _abstract(*, reads: "VariableReads") -> list[jax.core.ShapedArray]:
  return [jax.core.ShapedArray(spec.shape, spec.dtype) for spec in reads.specs]


def _callback(*, reads: "VariableReads") -> Array:
  return jax.pure_callback(reads.read, reads.specs)


def _lower(context: Any, *, reads: "VariableReads") -> Any:
  if mlir.lowers_for_export(context):
    names = [variable.name for variable in reads.variables]
    raise ConversionError(
      f"call_tf: {reads.function} reads the TensorFlow variables {names!r}, which an exported function cannot do. Make "
      f"them arguments:\n"
      f"  f = call_tf(f, variables='explicit')\n"
      f"  jax.export.export(jax.jit(f))(f.variables(*args), *args)\n"
      f"In a SavedModel they can stay variables: use jax2tf.convert in place of jax.export."
    )
  return mlir.lowering_of(_callback)(context, reads=reads)


mlir.register_lowering(_read_p, _lower)
