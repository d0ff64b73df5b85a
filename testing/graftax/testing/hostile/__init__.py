"""Hostile files, drawn from grammars of the formats that graftax reads, and a check of what reading them does.

A template (`templates/`, one file for each kind) writes a file that is well-formed except for what it lies about: a
field, a size, a name, a reference. Which field lies, and how, is drawn from a seed. A worker process reads the file as
a user would, and is watched: `python -m graftax.testing.hostile --help`.

- `draw.py`: the decisions of a case, which can be dropped one by one. `case.py`: the name that reproduces a case.
- `registry.py`: the templates by name, and what a template returns.
- `grammar/`: writers of the formats that can write what no library would.
- `readers.py`: what is done with a file.
- `watch.py`: files that are opened outside of the model, and processes and connections.
- `worker.py` runs cases in a child process; `run.py` limits it and names the outcome; `shrink.py`, `report.py`.
- `oracle.py`: what TensorFlow says of a graph.
"""
