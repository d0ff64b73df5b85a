"""Replaces TF1 control flow before the other stages see a program."""

import dataclasses

from graftax.convert.program import Program
from graftax.graphdef_ir import Limits, raise_control_flow

__all__ = ["with_functional_control_flow"]


def with_functional_control_flow(program: Program, limits: Limits | None = None) -> Program:
  """Returns the program with If and While in place of Switch, Merge, Enter and so on; unchanged if it has none.

  Raises:
    ControlFlowError: they do not form conditionals and loops.
    LimitExceededError: their branches multiply.
  """
  function, library = raise_control_flow(program.function, program.library, program.signatures, limits=limits)
  if function is program.function and library is program.library:
    return program
  return dataclasses.replace(program, function=function, library=library)
