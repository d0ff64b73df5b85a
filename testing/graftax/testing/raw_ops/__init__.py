"""One TensorFlow op against its lowering, in every way in which a converted model can use it.

Modules: `check` (`check_raw_op`, which runs all checks), `oracle` (the op and its TensorFlow oracle), `context` (what
lowerings see of the program), `compare`, and one for each group of checks: `without_x64`, `symbolic`, `batching` and
`derivatives`.
"""

from graftax.testing.raw_ops.check import check_raw_op, check_raw_op_rejects
from graftax.testing.raw_ops.context import NodeContext
from graftax.testing.raw_ops.oracle import RawOp, raw_op, tensorflow_op

__all__ = ["NodeContext", "RawOp", "check_raw_op", "check_raw_op_rejects", "raw_op", "tensorflow_op"]
