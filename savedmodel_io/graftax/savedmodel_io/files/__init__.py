"""The files of a SavedModel's folder, besides its checkpoint.

- `saved_model_pb`: finds and parses `saved_model.pb`, and chooses a MetaGraph by its tags.
- `assets`: the asset files that the MetaGraph names.
- `fingerprint`: the hashes in `fingerprint.pb`.
"""
