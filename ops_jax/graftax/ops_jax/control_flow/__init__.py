"""Control flow: calls, conditionals, loops, printing, and the ops that Grappler leaves in graphs.

- `calls`: Calls of library functions and their derivatives: PartitionedCall, SymbolicGradient.
- `conditionals`: Conditionals on `jax.lax.switch`: If, Case.
- `grappler_ops`: Ops that TensorFlow's graph optimizer creates: DeviceIndex, FakeParam, _UnaryOpsComposition.
- `loop_lists`: Tensor lists and optionals as loop variables, which need one structure for all iterations.
- `loops`: Loops on `jax.lax`: While, For. Explains which form a loop gets.
- `operands`: Converts values to operands of `jax.lax` control flow, and TensorFlow's conditions to bool.
- `printing`: Printing and string formatting: PrintV2, Print, StringFormat.

Calls, conditionals and loops are tested with the evaluator: `convert/evaluation/control_flow_test.py`,
`loops_outside_of_jit_test.py` and the files beside these.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "calls",
  "conditionals",
  "grappler_ops",
  "loops",
  "printing",
)
