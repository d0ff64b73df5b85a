"""The object graph of a SavedModel: its functions and resources, and the structure of their arguments.

- `object_graph`: the saved objects by attribute name.
- `trackable_graph`: matches saved objects with the keys of the checkpoint.
- `functions`: `ConcreteFunction`, `RestoredFunction`, `Resource`; `captures`: what a function closes over.
- `restored_functions`: reads functions and resources when they are asked for.
- `function_spec`: the Python signature of a function; `structured_value`: nested arguments and results;
  `structured_encoding`: their messages in files;
  `type_specs`: specs of what is not a plain tensor; `spec_text`: all of these in one line.
"""
