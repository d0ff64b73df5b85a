"""`graftax ops` and `graftax doctor`: what graftax knows about an op, and about this machine.

- `op_report`: what graftax knows about a TensorFlow op.
- `op_checks`: what checks against TensorFlow showed about each op.
- `outward_ops`: the rules that write an op for JAX primitives.
- `dtype_names`: short texts for sets of dtypes.
- `doctor`: versions, devices and optional libraries.
- `halt_polling`: whether idle cores of a virtual machine wait before they are handed back.
- `huge_pages`: whether memory comes in large pages.
- `facts_view`: prints all of it.
"""
