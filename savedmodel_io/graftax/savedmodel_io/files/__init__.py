"""The files of a model, besides its checkpoint.

- `model_files`: what a path names, and the files of the model there.
- `saved_model_pb`: finds and parses `saved_model.pb`, and chooses a MetaGraph by its tags.
- `graph_file`: files with one graph, such as frozen graphs.
- `file_budget`: limits what a file asks for.
- `assets`: the asset files that the MetaGraph names.
- `fingerprint`: the hashes in `fingerprint.pb`.
"""
