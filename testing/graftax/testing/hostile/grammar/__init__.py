"""Writers of the formats. They write what they are told, also what no library would.

- `protos.py`: attributes, tensors and nodes of GraphDefs. `models.py`: SavedModels of both kinds.
- `tables.py`: the sorted tables of checkpoints, and the checkpoints in them. `checksums.py`: CRC-32C and HighwayHash.
- `riegeli.py`: the records of chunked models.
- `modules.py`: StableHLO text, bytecode and exported functions.
- `readers.py`: what a user does with each of them.
"""
