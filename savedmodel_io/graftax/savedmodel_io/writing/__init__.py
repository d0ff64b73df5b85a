"""Writers of checkpoints and SavedModels, without TensorFlow.

What others call:

- `save`: `save`: writes SavedModels of JAX functions and parameters, without TensorFlow.
- `new_model`: Writes SavedModels made of programs, without TensorFlow: `write_saved_model`.
- `saved_model_copy`: Writing a SavedModel that was read, with new values for its variables: what `SavedModel.save`
  does.
- `rewritten_copy`: `rewrite`: a copy of a SavedModel for another TensorFlow, for other platforms, or for programs
  without StableHLO.
- `checkpoint`: Writing checkpoints: `write_checkpoint`.
- `atomic`: Writes files and folders under another name first, so that nothing half-written is found under their own.

What is written, checked and complete before a message is made:

- `jax_function`: `JaxFunction`, a JAX function and the arguments that it is traced with, and how users may write one.
- `parameter_tree`: The parameters of JAX functions as variables: names, values, what TensorFlow trains, and where to
  find them.
- `pytree_difference`: Says where two pytrees differ, in the keys that a caller wrote.
- `module_values`: The values that a module of another library has for the variables of its model.
- `model_content`: The content of a SavedModel before it is put into messages, and the checks of what a user passes.
- `new_values`: The checkpoint of a model whose variables get new values: which tensor takes its bytes from where.

From programs to the messages of a SavedModel:

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

From values to the files of a checkpoint:

- `stored_tensor`: Values as tensors to store: which element type and shape they have, and in which parts they are
  written.
- `array_bytes`: Arrays as chunks of bytes in C order, with little memory beside the array.
- `part_sources`: Where the bytes of a stored tensor, or of one stored slice of it, come from when they are written.
- `bundle_writer`: Writer of checkpoints in format 2: an index table and data shards, `<prefix>.index` and
  `<prefix>.data-*-of-*`.
"""
