"""Writes golden artifacts: tiny models and weights of every format, with what TensorFlow computes from them.

- `recorder`: how an artifact and its expected values are stored.
- `graphs`: models of TF1 and graphs by themselves; `checkpoints`: checkpoints.
- `modules`: models of TF2; `keras_models`: models and weight files of Keras; `stablehlo`: models that call StableHLO;
  `text`: models of TensorFlow Text.

The modules also run on the Python and TensorFlow of old releases, so they use nothing newer than Python 3.7.
"""
