"""Converts JAX functions to TensorFlow, and calls TensorFlow from JAX: a drop-in for `jax.experimental.jax2tf`.

Importing it does not import TensorFlow; the first call of a function that it returned does.

- `argument_names`: Names of the flat arguments and results of a JAX function, from its Python arguments and the paths
  in them.
- `gradient_functions`: The gradient functions of a traced function, as TensorFlow finds them after reloading.
- `large_constants`: Large constants of a traced function as inputs, so that its gradient functions share them.
- `module_nodes`: The nodes of a TensorFlow function that runs a StableHLO module, and what TensorFlow differentiates.
- `nested_structures`: Nested arguments and results of a JAX function as the structures that TensorFlow has.
- `node_forms`: The forms in which a traced JAX function becomes nodes: one StableHLO module, or plain TensorFlow ops.
- `parameter_variables`: The parameters of a JAX function as TensorFlow variables: their names and values.
- `polymorphic_shapes`: Symbolic shapes for the arguments of a JAX function, from specifications such as "batch, ...".
- `program`: `jax_program`: a JAX function as a `Program`, without TensorFlow.
- `program_assembly`: Builds the functions of a program from a traced JAX function.
- `short_integer_nodes`: Nodes that convert integers below 8 bits at the boundary of a converted function.
- `short_integers`: Integers below 8 bits, such as int4: TensorFlow stores each in a byte, and XLA packs several into
  one.
- `traced_function`: `TracedFunction`: a JAX function of flat arrays, traced once, from which all parts of a TensorFlow
  graph are made.
- `live`: JAX functions in live TensorFlow.
- `tf_calls`: TensorFlow functions in JAX.
- `tf_ops`: JAX functions as plain TensorFlow ops.
"""

from graftax.convert.jax2tf.live.conversion import DisabledSafetyCheck, convert
from graftax.convert.jax2tf.live.dtypes import dtype_of_val
from graftax.convert.jax2tf.live.logical_devices import split_to_logical_devices
from graftax.convert.jax2tf.polymorphic_shapes import PolyShape, eval_polymorphic_shape, symbolic_args_specs
from graftax.convert.jax2tf.tf_calls.call_tf import FunctionOfVariables, call_tf
from graftax.convert.jax2tf.tf_calls.declared_results import UnspecifiedOutputShapeDtype
from graftax.convert.jax2tf.tf_ops.registry import plain_op_primitives

__all__ = [
  "DisabledSafetyCheck",
  "FunctionOfVariables",
  "PolyShape",
  "UnspecifiedOutputShapeDtype",
  "call_tf",
  "convert",
  "dtype_of_val",
  "eval_polymorphic_shape",
  "plain_op_primitives",
  "split_to_logical_devices",
  "symbolic_args_specs",
]
