"""Which nodes of a program are work for the host, and where they end.

- `boundary`: Finds the tensors at which a model's work for the host (text, files, images) ends and numbers begin.
- `min_vertex_cut`: Finds a minimum vertex cut of a directed graph without cycles.
- `parts`: Finds the parts of a function: head, body and tail.
"""
