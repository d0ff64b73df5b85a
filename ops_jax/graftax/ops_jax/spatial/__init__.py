"""Layouts and windows, which convolutions, pooling and image ops share.

- `layouts`: Positions of batch, channel and spatial dimensions for TensorFlow's `data_format`.
- `windows`: Sliding windows: the attributes that describe them, padding in numbers, and the view of each cell of a
  window.
"""
