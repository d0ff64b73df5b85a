"""What `jax.export` and `Module.save` wrote, as data.

`live` reads a live `jax.export.Exported`, `files` the bytes that any JAX since 0.4.30 serialized, and `fields` is what
both return. `flatbuffer` reads the container of the files. `saved` writes and reads the files of `Module.save`.
"""
