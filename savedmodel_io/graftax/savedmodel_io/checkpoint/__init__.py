"""TensorFlow's checkpoint formats, read with numpy.

- `reader`: `CheckpointReader` and `read_checkpoint`, for checkpoints of both formats; `state`: the file `checkpoint`.
- `bundle_reader`: format 2, an index and data shards; `v1_reader`: format 1, one table.
- `table_reader`, `table_writer`: the sorted table that both formats use.
- `read_options`: what a caller chooses for each tensor.
- `tensor_entry`, `tensor_slice`, `partition`, `string_tensor`: one tensor, its slices, and how strings are stored.
- `pieces`: reads mapped files without keeping their pages in memory.
- `crc32c`, `varint`, `ordered_code`: checksums and number encodings.
"""
