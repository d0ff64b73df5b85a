"""Recurrent cells: TensorFlow's gates in the order, and in the arrays, that a target's cell has."""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from graftax.savedmodel_io.matching.layers import Layer, LayerParameter
from graftax.savedmodel_io.matching.layouts import Recipe, Step
from graftax.savedmodel_io.matching.words import split_name

__all__ = ["with_cells"]

# GRU and LSTM.
_NUM_GATES = (3, 4)
# What the last part of a kernel's name has if it is for the input, or for the state.
_INPUT = {"ih", "i", "input", "x"}
_STATE = {"hh", "h", "hidden", "recurrent", "state"}


@dataclass(frozen=True, slots=True)
class _Cell:
  """A cell of TensorFlow's.

  Attributes:
    scope: its name.
    kernel, state: the kernels for the input and for the state, `[inputs, gates * units]` and `[units, gates * units]`.
    bias: `[gates * units]`, or `[2, gates * units]` with a row for the input and one for the state; None without.
    num_gates: 3 or 4.
    layers: of which it is made.
  """

  scope: str
  kernel: LayerParameter
  state: LayerParameter
  bias: LayerParameter | None
  num_gates: int
  layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class _Place:
  """A cell of the target.

  Attributes:
    scope: its name.
    kernels, states: the kernels for the input and for the state: one each with all gates, or one for each gate.
    biases, state_biases: the biases of the same parts, or None.
    apart: the state's bias of one gate, if the cell has it beside one bias for all gates.
    layers: of which it is made.
  """

  scope: str
  kernels: tuple[LayerParameter, ...]
  states: tuple[LayerParameter, ...]
  biases: tuple[LayerParameter | None, ...]
  state_biases: tuple[LayerParameter | None, ...]
  apart: LayerParameter | None
  layers: tuple[Layer, ...]

  def leaves(self) -> dict[str, LayerParameter]:
    """Returns role -> parameter."""
    found = [("kernel", self.kernels), ("state", self.states), ("bias", self.biases), ("state_bias", self.state_biases)]
    named = {f"cell/{kind}/{k}": leaf for kind, leaves in found for k, leaf in enumerate(leaves) if leaf is not None}
    return named | ({"cell/apart/0": self.apart} if self.apart is not None else {})


@dataclass(frozen=True, slots=True)
class _Guess:
  """Which of TensorFlow's gates each gate of the target is, how its kernels lie, and which gate has two biases."""

  gates: tuple[int, ...]
  is_transposed: bool
  apart: int


def with_cells(
  sources: Sequence[Layer], targets: Sequence[Layer], given: Collection[str]
) -> tuple[list[Layer], list[Layer]]:
  """Returns the layers of both sides with each recurrent cell as one layer, in the form that the target has.

  In which order a cell holds its gates is not in its names, so all orders are `variants`.

  Args:
    sources, targets: the layers.
    given: names on both sides that the caller's table decides: these layers stay as they are.
  """
  places = [place for place in _places(targets) if _is_free(place.layers, given)]
  made: list[Layer] = []
  gone: set[int] = set()
  for cell in _cells(sources):
    place = next((place for place in places if _guesses(cell, place)), None)
    if place is not None and _is_free(cell.layers, given):
      made.append(_made(cell, place))
      gone.update(map(id, cell.layers))
  if not made:
    return list(sources), list(targets)
  gone.update(id(layer) for place in places for layer in place.layers)
  whole = [
    Layer(place.scope, {role: replace(leaf, role=role) for role, leaf in place.leaves().items()}) for place in places
  ]
  return _without(sources, gone) + made, _without(targets, gone) + whole


def _without(layers: Sequence[Layer], gone: Collection[int]) -> list[Layer]:
  return [layer for layer in layers if id(layer) not in gone]


def _is_free(layers: Iterable[Layer], given: Collection[str]) -> bool:
  return not any(layer.has_any(given) for layer in layers)


def _cells(layers: Sequence[Layer]) -> list[_Cell]:
  """Returns the cells with a kernel and a recurrent kernel."""
  by_scope = {layer.scope: layer for layer in layers}
  found = []
  for layer in layers:
    scope, _, last = layer.scope.rpartition("/")
    other = by_scope.get(scope)
    if last != "recurrent" or other is None or not {"kernel"} <= layer.leaves.keys() & other.leaves.keys():
      continue
    kernel, state, bias = other.leaves["kernel"], layer.leaves["kernel"], other.leaves.get("bias")
    width = kernel.shape[-1]
    num_gates = next((n for n in _NUM_GATES if state.shape == (width // n, width) and width % n == 0), None)
    if num_gates and len(kernel.shape) == 2 and (bias is None or bias.shape in ((width,), (2, width))):
      found.append(_Cell(scope, kernel, state, bias, num_gates, (layer, other)))
  return found


def _places(layers: Sequence[Layer]) -> list[_Place]:
  """Returns the cells of the target: kernels of the same scope for the input and for the state."""
  by_scope = {layer.scope: layer for layer in layers}
  groups: dict[str, dict[str, Layer]] = {}
  for layer in layers:
    scope, _, last = layer.scope.rpartition("/")
    if layer.main.role == "kernel" and len(layer.main.shape) == 2:
      groups.setdefault(scope, {})[last] = layer
  found = []
  for scope, group in groups.items():
    parts = _single_gates(group) or _all_gates(group)
    if parts is not None:
      found.append(_place(scope, parts, by_scope))
  return found


def _single_gates(group: Mapping[str, Layer]) -> tuple[list[Layer], list[Layer]] | None:
  """Returns the layers for the input and for the state, one for each gate, as `ii`, `if`, ... and `hi`, `hf`, ..."""
  sides: dict[str, dict[str, Layer]] = {"i": {}, "h": {}}
  for name, layer in group.items():
    word = name.strip("_")
    if len(word) == 2 and word[0] in sides:
      sides[word[0]][word[1]] = layer
  gates = sorted(sides["i"])
  if len(gates) not in _NUM_GATES or gates != sorted(sides["h"]):
    return None
  return [sides["i"][gate] for gate in gates], [sides["h"][gate] for gate in gates]


def _all_gates(group: Mapping[str, Layer]) -> tuple[list[Layer], list[Layer]] | None:
  """Returns the layer for the input and the one for the state, as `ih` and `hh`."""
  inputs = [layer for name, layer in group.items() if _INPUT & {*split_name(name)}]
  states = [layer for name, layer in group.items() if _STATE & {*split_name(name)}]
  return (inputs, states) if len(inputs) == len(states) == 1 and inputs != states else None


def _place(scope: str, parts: tuple[list[Layer], list[Layer]], by_scope: Mapping[str, Layer]) -> _Place:
  inputs, states = parts
  biases = [layer.leaves.get("bias") for layer in inputs]
  others = [by_scope[name] for name in (scope, f"{scope}/n") if name in by_scope and by_scope[name].main.role == "bias"]
  own = [layer for layer in others if len(inputs) == 1]
  if own and biases == [None]:
    biases = [own[0].main]
  return _Place(
    scope,
    tuple(layer.main for layer in inputs),
    tuple(layer.main for layer in states),
    tuple(biases),
    tuple(layer.leaves.get("bias") for layer in states),
    own[1].main if len(own) > 1 else None,
    (*inputs, *states, *own),
  )


def _guesses(cell: _Cell, place: _Place) -> list[_Guess]:
  """Returns the orders and layouts in which a cell has the shapes of the target's."""
  gates = cell.num_gates
  if len(place.kernels) not in (1, gates):
    return []
  width = cell.state.shape[1] // len(place.kernels)
  biases = {leaf.shape for leaf in (*place.biases, *place.state_biases) if leaf is not None}
  if not biases <= {(width,)} or (place.apart is not None and place.apart.shape != (cell.state.shape[1] // gates,)):
    return []
  shapes = ((cell.kernel.shape[0], width), (cell.state.shape[0], width))
  found = [{leaf.shape for leaf in leaves} for leaves in (place.kernels, place.states)]
  layouts = [flag for flag in (False, True) if found == [{shape[::-1] if flag else shape} for shape in shapes]]
  aparts = range(gates) if place.apart is not None else (-1,)
  return [
    _Guess(order, flag, apart)
    for apart in reversed(aparts)
    for order in itertools.permutations(range(gates))
    for flag in layouts
  ]


def _made(cell: _Cell, place: _Place) -> Layer:
  """Returns a cell as a layer with the parameters that the target's cell has."""
  leaves = {}
  guesses = _guesses(cell, place)
  for role, leaf in place.leaves().items():
    _, kind, part = role.split("/")
    source = _source(cell, place, kind, int(part))
    if source is None:
      continue
    recipes = tuple(Recipe((source.name,), _steps(cell, place, kind, int(part), guess)) for guess in guesses)
    leaves[role] = LayerParameter(source.name, leaf.shape, role, recipes[0], recipes)
  return Layer(cell.scope, leaves)


def _source(cell: _Cell, place: _Place, kind: str, part: int) -> LayerParameter | None:
  """Returns the parameter that a part of the target's cell is made of; None if the cell has none for it."""
  if kind in ("kernel", "state"):
    return cell.kernel if kind == "kernel" else cell.state
  # The target adds its two biases: a bias without a row for the state is only one of them.
  is_second = kind == "apart" or (kind == "state_bias" and place.biases[part] is not None)
  return None if is_second and cell.bias is not None and len(cell.bias.shape) == 1 else cell.bias


def _steps(cell: _Cell, place: _Place, kind: str, part: int, guess: _Guess) -> tuple[Step, ...]:
  if kind in ("kernel", "state"):
    last: tuple[Step, ...] = (("transpose", (1, 0)),) if guess.is_transposed else ()
    return (*_gate_steps(1, part, place, guess), *last)
  rows = _row_steps(cell, place, kind, part, guess)
  if kind == "apart":
    return (*rows, ("part", (0, guess.apart, cell.num_gates)))
  return (*rows, *_gate_steps(0, part, place, guess))


def _gate_steps(axis: int, part: int, place: _Place, guess: _Guess) -> tuple[Step, ...]:
  if len(place.kernels) > 1:
    return (("part", (axis, guess.gates[part], len(guess.gates))),)
  return (("order", (axis, *guess.gates)),) if guess.gates != tuple(range(len(guess.gates))) else ()


def _row_steps(cell: _Cell, place: _Place, kind: str, part: int, guess: _Guess) -> tuple[Step, ...]:
  """Returns the steps that make one row of biases of two, if there are two."""
  assert cell.bias is not None
  if len(cell.bias.shape) == 1:
    return ()
  if kind != "apart" and (place.biases[part] is None or place.state_biases[part] is None):
    return (("fold", (cell.num_gates, guess.apart)),)
  row = 0 if kind == "bias" else 1
  return (("part", (0, row, 2)), ("reshape", (cell.bias.shape[1],)))
