"""The variables of a SavedModel and the tensors of its checkpoint that hold their values.

- `variables`: `VariableInfo`, and `Variables`, which reads values when they are asked for.
- `casting`: which of them are cast while they are read.
- `progress`: the progress of reading the variables of a function.
- `sharding`: which devices they are placed on, and the part that each device reads.
- `nesting`: dicts of values by name as nested dicts, and back.
- `object_variables`: finds the variables of an object graph (TF2).
- `graph_variables`: finds the variables of a graph, by its Saver's restore ops (TF1).
"""
