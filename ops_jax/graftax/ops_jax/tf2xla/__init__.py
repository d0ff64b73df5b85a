"""TensorFlow's bridge to XLA: the Xla* ops of tf2xla, and XlaCallModule.

- `call_module`: StableHLO modules, as `jax2tf.convert` writes them: XlaCallModule.
- `computation`: Library functions of scalars as Python functions, and which of them are monoids.
- `conv`: General convolution: XlaConv, XlaConvV2.
- `dequantize`: Packed integers as numbers: XlaDequantize.
- `dot`: General matrix product: XlaDot, XlaDotV2.
- `gather`: General gather and scatter: XlaGather, XlaScatter.
- `proto_fields`: Integer fields of the protobuf messages in string attributes.
- `random_bits`: Random bits: XlaRngBitGenerator.
- `reduce`: Reductions with any function: XlaReduce, XlaVariadicReduceV2.
- `replicas`: Replicas and partitions, for a single one: XlaAllReduce, XlaReplicaId, CollectiveReduceV2, XlaSharding.
- `slicing`: Slices, padding and broadcasts: XlaDynamicSlice, XlaPad, XlaBroadcastHelper.
- `sort`: Sorts: XlaSort, XlaKeyValueSort, XlaVariadicSort.
- `split`: Splits of an array into a grid of parts, and back: XlaSplitND, XlaConcatND.
- `window`: Reductions over sliding windows, and their transpose: XlaReduceWindow, XlaSelectAndScatter.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "call_module",
  "conv",
  "dequantize",
  "dot",
  "gather",
  "random_bits",
  "reduce",
  "replicas",
  "slicing",
  "sort",
  "split",
  "window",
)
