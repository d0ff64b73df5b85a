"""The boundary between a model's work for the host and its numeric part.

- `boundary`: Finds the tensors at which a model's work for the host (text, files, images) ends and numbers begin.
- `min_vertex_cut`: Finds a minimum vertex cut of a directed graph without cycles.
"""
