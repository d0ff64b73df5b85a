"""Where a `Program` comes from.

- `programs`: Makes a `Program` of anything that can be converted: live functions, graphs and files.
- `graph_def`: Makes a `Program` of a GraphDef, such as a frozen graph.
"""
