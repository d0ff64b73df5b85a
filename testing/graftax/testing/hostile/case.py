"""The name of a case, which reproduces it."""

import dataclasses

__all__ = ["CaseId"]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class CaseId:
  """A template, a seed, and the decisions that are left out.

  Attributes:
    kind: the kind of file.
    template: the template's name.
    seed: the seed of its decisions.
    dropped: positions of decisions that take their plainest value instead of the drawn one.

  Example:
    >>> CaseId.parse("safetensors/offsets/17~0.3")
    CaseId(kind='safetensors', template='offsets', seed=17, dropped=(0, 3))
    >>> str(CaseId("safetensors", "offsets", 17, (0, 3)))
    'safetensors/offsets/17~0.3'
  """

  kind: str
  template: str
  seed: int
  dropped: tuple[int, ...] = ()

  def __str__(self) -> str:
    text = f"{self.kind}/{self.template}/{self.seed}"
    return f"{text}~{'.'.join(map(str, self.dropped))}" if self.dropped else text

  @classmethod
  def parse(cls, text: str) -> "CaseId":
    """Returns the id that `str` printed.

    Raises:
      ValueError: `text` is not of the form `kind/template/seed` or `kind/template/seed~0.3`.
    """
    kind, template, rest = text.split("/")
    seed, _, dropped = rest.partition("~")
    return cls(kind, template, int(seed), tuple(int(i) for i in dropped.split(".") if i))
