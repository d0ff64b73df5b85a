"""Contracts: what the kernels of custom calls accept. Other kernels are called only if the caller names them.

A kernel of jaxlib computes addresses from the shapes that a module declares, and does not check all of them. A module
from a stranger could therefore read or overwrite memory. Each custom call is compared with the contract of its target
before it is lifted or embedded.

- `checks`: Compares a custom call, or all custom calls of a module, with the contracts.
- `compiled`: Targets that are not kernels, because XLA replaces them while it compiles.
- `initialization`: Makes jaxlib register and initialize the kernels of a module.
- `kernels`: The kernels that are called, and the contract of each.
- `tensors`: Types of operands and results as patterns such as "T[m,n]", and their comparison.
"""

from graftax.xla_call_module.contracts.checks import (
  check_called,
  check_lifted,
  check_module,
  is_compiled,
  is_kernel,
  needs,
)
from graftax.xla_call_module.contracts.initialization import initialize

__all__ = ["check_called", "check_lifted", "check_module", "initialize", "is_compiled", "is_kernel", "needs"]
