"""One op with concrete inputs and attributes, and the text that reproduces it."""

import dataclasses
from typing import Any

import numpy as np

__all__ = ["Case", "CaseId"]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class CaseId:
  """Seeds of a case.

  Attributes:
    op: TensorFlow's op name.
    structure: seed of dtypes, attributes, shapes and static inputs. Cases that share it share a compiled program.
    values: seed of the other inputs; also selects their style, see `draw.STYLES`.

  Example:
    >>> str(CaseId("AddV2", 3, 1))
    'AddV2/3/1'
    >>> CaseId.parse("AddV2/3/1")
    CaseId(op='AddV2', structure=3, values=1)
  """

  op: str
  structure: int
  values: int

  def __str__(self) -> str:
    return f"{self.op}/{self.structure}/{self.values}"

  @classmethod
  def parse(cls, text: str) -> "CaseId":
    """Returns the id that `str` printed.

    Raises:
      ValueError: `text` is not of the form `op/structure/values`.
    """
    op, structure, values = text.split("/")
    return cls(op, int(structure), int(values))


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
  """Arguments of one call of an op.

  Attributes:
    id: what the case was drawn from.
    inputs: numpy arrays by argument name; a list of them for a list-valued argument.
    attrs: attributes as `tf.raw_ops` takes them.
  """

  id: CaseId
  inputs: dict[str, Any]
  attrs: dict[str, Any]

  def arrays(self) -> list[np.ndarray]:
    """Returns all inputs, with lists flattened."""
    return [x for value in self.inputs.values() for x in (value if isinstance(value, list) else [value])]

  def __str__(self) -> str:
    """Returns the id, the inputs and the attributes, on one line unless an array is large."""

    def text(value: Any) -> str:
      if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
      return f"{value.dtype}{list(value.shape)} {value.tolist()!r}" if isinstance(value, np.ndarray) else repr(value)

    arguments = [f"{name}={text(value)}" for name, value in {**self.inputs, **self.attrs}.items()]
    return f"{self.id}: {self.id.op}({', '.join(arguments)})"
