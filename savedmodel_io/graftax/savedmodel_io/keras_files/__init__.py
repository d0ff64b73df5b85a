"""Weights in the files that Keras writes, by name, without Keras or TensorFlow. Reading them needs h5py.

- `read`: `read_weights`, for every kind of file that holds values.
- `h5_file`: opens HDF5 files that may be hostile, and reads their datasets; `h5_chunks`: those stored in chunks.
- `guard`: tries a file in a helper process first; `h5_probe`: what that process runs.
- `keras_archive`: the `.keras` archive around an HDF5 file.
- `legacy_layout`: files of Keras 2, and of `model.save("x.h5")` in Keras 3, which have the names of the weights.
- `sharded_weights`: the `.weights.json` file of weights in several HDF5 files.
- `nested_layout`: the `.weights.h5` files of Keras 3; `variable_names`: names for the weights that these number.
"""
