"""Lookup tables as constants of a program.

- `graph_tables`: Turns lookup tables into constants, also tables that a graph creates and fills itself.
- `text_files`: Reads tables from text files, one entry per line, as `tf.lookup.TextFileInitializer` describes them.
"""
