"""Writes which dtypes TensorFlow's CPU kernels take, the table of graftax.convert.jax2tf.tf_ops.

    python -m graftax.tools.codegen.generate_cpu_kernels            # from the installed TensorFlow
    python -m graftax.tools.codegen.generate_cpu_kernels --check    # exit 1 if the table is out of date

The table has the ops whose names occur in the modules of rules.
"""

import re
import sys
from collections.abc import Sequence

from graftax.graphdef_ir import DType
from graftax.tools.codegen.generated_file import REPOSITORY, run_generator

_RULES = REPOSITORY / "convert/graftax/convert/jax2tf/tf_ops"
_TARGET = _RULES / "cpu_kernels.txt"
_OP_NAME = re.compile(r'"([A-Z]\w+)"')
_HEADER = """\
# The dtypes that CPU kernels of TensorFlow take, by attribute; renewed by
# graftax/tools/codegen/generate_cpu_kernels.py.
"""


def rules_ops() -> list[str]:
  """Returns the names in the modules of rules that look like those of ops, sorted."""
  texts = (path.read_text(encoding="utf-8") for path in _RULES.rglob("*.py") if not path.stem.endswith("_test"))
  return sorted({name for text in texts for name in _OP_NAME.findall(text)})


def format_table(ops: Sequence[str]) -> str:
  """Returns the text of the table, with a line for each op that has a CPU kernel."""
  from tensorflow.python.framework import kernels

  lines = []
  for op in ops:
    registered = kernels.get_registered_kernels_for_op(op).kernel
    found = [kernel for kernel in registered if kernel.device_type in ("CPU", "DEFAULT")]  # the latter is any device
    if found:
      lines.append(" ".join([op, *_constraints(found)]) + "\n")
  return _HEADER + "".join(lines)


def _constraints(kernels: Sequence[object]) -> list[str]:
  """Returns `attribute=dtypes` for the attributes that all kernels of an op restrict."""
  by_kernel = [
    {c.name: set(c.allowed_values.list.type) for c in kernel.constraint}  # type: ignore[attr-defined]  # a message
    for kernel in kernels
  ]
  names = sorted(set.intersection(*(set(found) for found in by_kernel)))
  allowed = {name: sorted(set().union(*(found[name] for found in by_kernel))) for name in names}
  return [f"{name}={','.join(DType(number).tf_name for number in numbers)}" for name, numbers in allowed.items()]


def main(args: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status: 1 if `--check` finds that the file is out of date."""
  return run_generator(
    __doc__ or "", "graftax.tools.codegen.generate_cpu_kernels", _TARGET, lambda: format_table(rules_ops()), args
  )


if __name__ == "__main__":
  sys.exit(main())
