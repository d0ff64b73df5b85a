"""From programs to the messages of a SavedModel; `model_messages` is what the rest of `writing` calls.

- `prepared_program`: Makes programs ready to be saved: variables become resources that the function captures.
- `merged_library`: Brings the functions of several programs into one function library, without two functions of one
  name.
- `object_builder`: Builds the two object graphs of a SavedModel: the saved objects, and the checkpoint's objects that
  hold values.
- `captured_objects`: The objects and graph nodes of what functions capture: variables, constants, assets, tables,
  forward tensors.
- `function_records`: The records of functions in a SavedModel: how concrete functions, gradients and `tf.function`s are
  called.
- `signature_functions`: Makes the functions of signatures: tensors in by name, tensors out by name, around the function
  of a program.
- `table_functions`: The functions that make, fill, save, restore and delete a lookup table in a loaded SavedModel.
- `graph_nodes`: Builds the graph of a SavedModel for loaders without objects: variables, constants, signatures, saving,
  restoring.
- `model_messages`: Puts the content of a SavedModel into messages: objects, functions, graph and signatures.
"""
