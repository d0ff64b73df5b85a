"""Parameters under other names, and in files of other libraries.

- `renaming`: parameters under other names, with a report of what fits.
- `safetensors_files`: parameters in safetensors files.
- `orbax_checkpoints`: parameters in checkpoints of Orbax.
- `values`: parameters that these can hold.
- `placement`: the dtype and the devices of parameters that are read from these.
"""
