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

Rooms:

- `messages`: from programs to the messages of a SavedModel.
- `bundles`: from values to the files of a checkpoint.
"""
