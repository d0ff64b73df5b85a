"""Templates that still show a fault, with what it is. The lanes of the tests leave them out; the command runs them."""

__all__ = ["KNOWN_FAULTS"]

# Template -> fault. A template leaves the table with the commit that mends it.
KNOWN_FAULTS: dict[str, str] = {
  **dict.fromkeys(
    [
      "saved_model/nodes_of_one_name",
      "saved_model/too_many_inputs",
      "saved_model/too_few_inputs",
      "saved_model/missing_attributes",
      "saved_model/node_attributes",
      "saved_model/bound_inputs",
      "saved_model/cycle",
      "saved_model/functions_of_one_name",
      "saved_model/signature_def",
      "graph_file/nodes_of_one_name",
      "graph_file/too_many_inputs",
      "graph_file/too_few_inputs",
      "graph_file/cycle",
      "graph_file/cycle_through_merge",
      "graph_file/unknown_inputs",
      "graph_file/types_of_inputs",
      "graph_file/calls_of_other_types",
      "graph_file/missing_attributes",
      "graph_file/attributes",
      "graph_file/case_branches",
      "graph_file/text_that_repeats",
      "tf1_control_flow/loop_that_doubles_a_list",
    ],
    "a graph is not validated before it is planned",
  ),
  **dict.fromkeys(
    [
      "host_ops/rewrites_that_multiply",
    ],
    "rewrites that multiply take more than 10 s",
  ),
  "host_ops/numbers_as_text": "text made of numbers is checked after it is made",
  **dict.fromkeys(
    [
      "tracing/pad",
      "tracing/ragged_to_dense",
      "tracing/range",
      "tracing/range_of_floats",
      "tracing/sparse_fill_empty_rows",
      "tracing/sparse_to_dense",
      "tracing/tensor_list",
    ],
    "a known size is not checked before NumPy or XLA allocates it",
  ),
}
