"""What can be called in a SavedModel, as a `graftax.convert.Program`.

- `from_entry`: makes the program of a signature or a restored function.
- `closure`: captures and custom gradients of a function.
- `trace_choice`: chooses among the traces of a function by the arguments of a call.
- `tables`: lookup tables and other resources as constants.
- `model_nodes`: nodes in place of captured models of SentencePiece.
- `tensorflow_head`: the head of a split model, run by TensorFlow.
"""
