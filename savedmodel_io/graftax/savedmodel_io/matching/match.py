"""`match`: TensorFlow's parameters for a model that somebody else wrote."""

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import jax
import numpy as np

from graftax.savedmodel_io.errors import MatchError
from graftax.savedmodel_io.matching.cells import with_cells
from graftax.savedmodel_io.matching.comparison import Comparison, comparer
from graftax.savedmodel_io.matching.fused import with_fused_layers
from graftax.savedmodel_io.matching.layers import Layer, read_layers
from graftax.savedmodel_io.matching.layouts import Array, Recipe
from graftax.savedmodel_io.matching.running import perturbed, trace_functions
from graftax.savedmodel_io.matching.search import search
from graftax.savedmodel_io.matching.targets import Target, read_target
from graftax.savedmodel_io.matching.trials import try_ways
from graftax.savedmodel_io.matching.words import COUNTERS, split_name
from graftax.savedmodel_io.parameters.renaming import Renaming, rename
from graftax.savedmodel_io.variables.nesting import flat

__all__ = ["Ambiguity", "Matching", "Placement", "match"]

# As in `check`: functions that compute the same in another order differ by less.
_SAME = 2e-5
# Options of an ambiguous parameter that are printed.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Placement:
  """What a parameter of the target is made of.

  Attributes:
    recipe: the parameters and the steps.
    evidence: what decided: "names", "order", "run", "table" or several of them.
  """

  recipe: Recipe
  evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ambiguity:
  """A parameter of the target for which there are several ways.

  Attributes:
    options: the ways, the likeliest first.
    reason: why none of them was taken.
  """

  options: tuple[Recipe, ...]
  reason: str


@dataclass(frozen=True, slots=True)
class Matching:
  """Which parameters of the target are made of which parameters of TensorFlow's, as far as the evidence goes.

  Attributes:
    placed: name in the target -> what it is made of.
    ambiguous: name in the target -> the ways between which nothing decides. No way was taken.
    missing: names in the target for which there is no parameter.
    unused: names of parameters that are in no place.
    kept: names in the target that are not numbers to be learned, such as counters and keys, and keep their values.
    contradicted: names in the target that are placed and that no run confirms, if the target function with all
      placements returned other outputs than TensorFlow's. `choose` does not change it: run `check`.
  """

  placed: Mapping[str, Placement]
  ambiguous: Mapping[str, Ambiguity]
  missing: tuple[str, ...]
  unused: tuple[str, ...]
  kept: tuple[str, ...]
  contradicted: tuple[str, ...]
  _params: Mapping[str, Array] = field(repr=False)
  _target: Target = field(repr=False)
  _sources: tuple[Layer, ...] = field(repr=False)

  @property
  def is_complete(self) -> bool:
    """Whether every parameter of the target is placed, all of TensorFlow's are used, and no run contradicts it."""
    return not (self.ambiguous or self.missing or self.unused or self.contradicted)

  @property
  def table(self) -> dict[str, str]:
    """Old name -> new name, as `rename` takes it, for the parameters that go to one place unchanged or transposed."""
    names = [(placement.recipe.names, new) for new, placement in self.placed.items() if _is_layout(placement.recipe)]
    old_names = [old for olds, _ in names for old in olds]
    return {olds[0]: new for olds, new in names if len(olds) == 1 and old_names.count(olds[0]) == 1}

  def target_shape(self, name: str) -> tuple[int, ...]:
    """Returns the shape of a parameter of the target.

    Raises:
      MatchError: the target has no such parameter.
    """
    if name not in self._target.arrays:
      raise MatchError(f"target_shape: the target has no parameter {name!r}.")
    return tuple(self._target.arrays[name].shape)

  def choose(self, name: str, option: int) -> "Matching":
    """Returns the matching with one of the options of an ambiguous parameter of the target.

    Args:
      name: a key of `ambiguous`.
      option: the position in `ambiguous[name].options`, from 0.

    Raises:
      MatchError: the parameter is not ambiguous, or has fewer options.
    """
    if name not in self.ambiguous or not 0 <= option < len(self.ambiguous[name].options):
      raise MatchError(f"choose: {name!r} with option {option}: expected one of {_options_text(self.ambiguous)}.")
    recipe = self.ambiguous[name].options[option]
    placed = {**self.placed, name: Placement(recipe, ("caller",))}
    ambiguous = {new: way for new, way in self.ambiguous.items() if new != name}
    return replace(self, placed=placed, ambiguous=ambiguous, unused=_unused(self._sources, placed))

  def apply(self, params: Mapping[str, Array] | None = None, *, partial: bool = False) -> object:
    """Returns the target with the parameters in their places: a module, or a tree, as it was given to `match`.

    Args:
      params: name -> array; by default those that `match` got.
      partial: whether parameters of the target without a placement may keep their own values.

    Raises:
      MatchError: a parameter of the target is ambiguous or missing, `params` lacks one or has it in another shape, or a
        finite number is too large for the dtype of the target. Under `jit`, such a number becomes infinite.
    """
    open_names = [*self.ambiguous, *self.missing]
    if open_names and not partial:
      raise MatchError(
        f"apply: {len(open_names)} parameters of the target have no value, such as {open_names[0]!r}. Decide with "
        "choose(), give rows in match(table=), or pass partial=True to keep the target's own values."
      )
    return self._target.rebuild(self._values(self._params if params is None else flat(params)))

  def _values(self, params: Mapping[str, Array]) -> dict[str, Array]:
    for name in dict.fromkeys(name for placement in self.placed.values() for name in placement.recipe.names):
      if name in params and np.shape(params[name]) != np.shape(self._params[name]):
        raise MatchError(
          f"apply: {name!r} has shape {np.shape(params[name])}, but match() had it of shape "
          f"{np.shape(self._params[name])}. Match these parameters anew."
        )
    try:
      arrays = {name: placement.recipe.make(params) for name, placement in self.placed.items()}
    except KeyError as e:
      raise MatchError(f"apply: params lacks {e.args[0]!r}, which match() had.") from e
    return {
      name: _as_in_target(array, self._target.arrays[name].dtype, name, self.placed[name].recipe)
      for name, array in arrays.items()
    }

  def check(
    self,
    fn: Callable[..., object],
    target_fn: Callable[..., object],
    *args: object,
    tolerance: float = _SAME,
    perturb: bool = True,
  ) -> Comparison:
    """Runs both functions on the same data and says after which layer they differ first, and by how much.

    Args:
      fn: the converted function, or `fn(params, *args)`.
      target_fn: `target_fn(model, *args)`, where `model` is what `apply` returns. Its outputs have the form of `fn`'s.
      args: the data.
      tolerance: the largest difference that counts as none, relative to the largest number.
      perturb: whether to add noise to all parameters, on both sides, so that parameters that are equal (biases of 0,
        scales of 1) do not hide one that is in the wrong place.
    """
    return self.checker(fn, target_fn, *args, tolerance=tolerance, perturb=perturb)(self)

  def checker(
    self,
    fn: Callable[..., object],
    target_fn: Callable[..., object],
    *args: object,
    tolerance: float = _SAME,
    perturb: bool = True,
  ) -> "Callable[[Matching], Comparison]":
    """Returns a function that checks matchings of the same target as `check` does, and compiles both functions once.

    Args:
      fn: the converted function, or `fn(params, *args)`.
      target_fn: `target_fn(model, *args)`, where `model` is what `apply` returns. Its outputs have the form of `fn`'s.
      *args: the data on which each matching is checked; its shapes are fixed here.
      tolerance: the largest difference that counts as none, relative to the largest number.
      perturb: whether to add noise to all parameters, on both sides; see `check`.
    """
    values = perturbed(self._params, _roles(self._sources)) if perturb else dict(self._params)
    functions = trace_functions(fn, self._params, target_fn, self._target, args)
    compare = comparer(functions, values, self._sources, read_layers(self._target.arrays), tolerance)

    def check(matching: Matching) -> Comparison:
      recipes = {name: placement.recipe for name, placement in matching.placed.items()}
      return compare({**_own_values(matching._target), **matching._values(values)}, recipes)

    return check

  def __str__(self) -> str:
    total = len(self.placed) + len(self.ambiguous) + len(self.missing)
    lines = [f"{len(self.placed)} of {total} parameters of the target placed"]
    lines.extend(f"  {row}" for row in _rows(self.placed))
    if self.ambiguous:
      lines.append(f"{len(self.ambiguous)} ambiguous")
      for name, way in self.ambiguous.items():
        more = f"; and {len(way.options) - _SHOWN} more" if len(way.options) > _SHOWN else ""
        options = "; ".join(f"{i}: {option}" for i, option in enumerate(way.options[:_SHOWN]))
        lines.append(f"  {name}: {way.reason}: {options}{more}")
    for title, names in (
      ("placed, but a run gives other outputs", self.contradicted),
      ("without a value", self.missing),
      ("not used", self.unused),
      ("kept", self.kept),
    ):
      if names:
        lines.append(f"{len(names)} {title}: {', '.join(names)}")
    return "\n".join(lines)


def _is_layout(recipe: Recipe) -> bool:
  """Returns whether it is one parameter in another layout, with its parts in the same order."""
  return len(recipe.names) == 1 and {name for name, _ in (*recipe.before, *recipe.after)} <= {"transpose", "reshape"}


def _options_text(ambiguous: Mapping[str, Ambiguity]) -> str:
  return (
    ", ".join(f"{name!r} (0 to {len(way.options) - 1})" for name, way in ambiguous.items())
    or "none, nothing is ambiguous"
  )


def _rows(placed: Mapping[str, Placement]) -> list[str]:
  """Returns a line for each placement; those that differ in numbers alone are one line."""
  groups: dict[tuple[str, str, str], list[str]] = {}
  for name, placement in placed.items():
    text = f"{placement.recipe} -> {name}"
    key = (
      re.sub(r"\d+", "#", name),
      re.sub(r"(?<!\()\b\d+|\d+(?=[/_.])|(?<=_)\d+", "#", str(placement.recipe)),
      ", ".join(placement.evidence),
    )
    groups.setdefault(key, []).append(text)
  lines = []
  for (_, _, evidence), texts in groups.items():
    more = f", and {len(texts) - 1} like it" if len(texts) > 1 else ""
    lines.append(f"{texts[0]}{more} ({evidence})")
  return lines


def match(
  params: Mapping[str, Array],
  target: object,
  *,
  fn: Callable[..., object] | None = None,
  target_fn: Callable[..., object] | None = None,
  args: Sequence[object] = (),
  table: Mapping[str, str | None] | None = None,
  tolerance: float = _SAME,
) -> Matching:
  """Returns which parameters of TensorFlow's belong where in a model that somebody else wrote, and in which layout.

  The words and numbers in names, shapes, and what parameters are to their layers decide. With both functions, the order
  in which they use parameters does, too, and ways between which nothing else decides are tried: one is taken if the
  layer then returns the same numbers. What nothing decides is `ambiguous`, and no way is taken. If the outputs still
  differ, placements that no run confirms are `contradicted`, and the matching is not complete.

  Args:
    params: name -> array, such as the parameters of `SavedModel.convert` or what `read_weights` returns.
    target: a module of flax.nnx or equinox, variables of a linen module, parameters of haiku or `(params, state)`, or
      any other pytree of arrays or of `jax.ShapeDtypeStruct`.
    fn: the converted function, or `fn(params, *args)`.
    target_fn: `target_fn(target, *args)`, which returns outputs in the form of `fn`'s.
    args: data for both functions.
    table: old name -> new name or None, as `rename` takes it, for parameters that you know.
    tolerance: the largest difference of a layer's results that counts as none, relative to the largest number.

  Raises:
    MatchError: the target has no parameters, or two of the same name; only one of the functions is given; or a row of
      the table names a parameter or a place that does not exist, or a place of a shape that no layout of the parameter
      has.

  Example:
      >>> params = {"dense/kernel": np.ones((3, 4)), "dense/bias": np.zeros(4)}
      >>> target = {"params": {"fc": {"weight": np.zeros((4, 3)), "bias": np.ones(4)}}}
      >>> matching = match(params, target)
      >>> print(matching)
      2 of 2 parameters of the target placed
        dense/bias -> params/fc/bias (names)
        dense/kernel | transpose(1, 0) -> params/fc/weight (names)
      >>> matching.apply()["params"]["fc"]["weight"].shape
      (4, 3)
  """
  if (fn is None) != (target_fn is None):
    raise MatchError("match: only one of fn and target_fn is given; pass both, or none of them.")
  arrays = {name: value for name, value in flat(params).items() if _is_real(value)}
  model = read_target(target)
  places = {
    name: array
    for name, array in model.arrays.items()
    if split_name(name.rpartition("/")[2])[-1:] and not _is_counter(name)
  }
  learned = {name: value for name, value in arrays.items() if not _is_counter(name)}
  rows = _read_table(table or {}, flat(params), learned, places)
  targets = read_layers(places)
  given = {*rows.matched, *rows.matched.values(), *rows.dropped}
  sources, targets = with_cells(with_fused_layers(read_layers(learned), targets, given), targets, given)
  contradicted: frozenset[str] = frozenset()
  if fn is None or target_fn is None:
    ways = search(sources, targets, None, rows)
  else:
    functions = trace_functions(fn, flat(params), target_fn, model, args)
    ways, contradicted = try_ways(
      search(sources, targets, functions, rows),
      functions,
      perturbed(flat(params), _roles(sources)),
      _own_values(model),
      tolerance,
    )
  placed = {name: Placement(recipe, evidence) for way in ways for name, (recipe, evidence) in way.decided().items()}
  ambiguous = {name: Ambiguity(*rest) for way in ways for name, rest in way.undecided().items()}
  return Matching(
    placed={name: placed[name] for name in places if name in placed},
    ambiguous={name: ambiguous[name] for name in places if name in ambiguous},
    missing=tuple(name for name in places if name not in placed and name not in ambiguous),
    unused=_unused(sources, placed),
    contradicted=tuple(name for name in places if name in placed and name in contradicted),
    kept=(*(name for name in model.arrays if name not in places), *model.others),
    _params=flat(params),
    _target=model,
    _sources=tuple(sources),
  )


def _read_table(
  table: Mapping[str, str | None], params: Mapping[str, Array], learned: Collection[str], places: Collection[str]
) -> Renaming:
  """Returns which parameter each row is for.

  Raises:
    MatchError: a row has the name of no parameter, or maps a parameter to a name that the target does not have.
  """
  report = rename(params, table)[1]
  if report.unused:
    raise MatchError(f"match: no parameter has the name of the row {report.unused[0]!r} of table.")
  for old, new in report.matched.items():
    if old in learned and new not in places:
      names = ", ".join(map(repr, difflib.get_close_matches(new, places, cutoff=0.3) or [*places][:1]))
      raise MatchError(
        f"match: table maps {old!r} to {new!r}, which is not a parameter of the target. "
        + (f"Give one of its names, such as {names}." if names else "It has no parameters that are learned.")
      )
    if old not in learned and old in table:
      raise MatchError(
        f"match: table maps {old!r} to {new!r}, but match places arrays of floating-point numbers alone. Leave out the "
        "row, or map it to None."
      )
  return report


def _is_real(value: Array) -> bool:
  return bool(jax.numpy.issubdtype(value.dtype, np.floating))


def _is_counter(name: str) -> bool:
  return name.rpartition("/")[2].lower() in COUNTERS


def _unused(sources: Sequence[Layer], placed: Mapping[str, Placement]) -> tuple[str, ...]:
  used = {name for placement in placed.values() for name in placement.recipe.names}
  names = [name for layer in sources for leaf in layer.leaves.values() for name in leaf.recipe.names]
  return tuple(name for name in dict.fromkeys(names) if name not in used)


def _roles(layers: Sequence[Layer]) -> dict[str, str]:
  return {name: leaf.role for layer in layers for leaf in layer.leaves.values() for name in leaf.recipe.names}


def _own_values(target: Target) -> dict[str, Array]:
  return {
    name: np.zeros(array.shape, array.dtype) if isinstance(array, jax.ShapeDtypeStruct) else array
    for name, array in target.arrays.items()
  }


def _as_in_target(array: Array, dtype: np.dtype, name: str, recipe: Recipe) -> Array:
  """Returns an array with the dtype of the target.

  Raises:
    MatchError: finite numbers would become infinite or NaN.
  """
  if array.dtype == dtype:
    return array
  with np.errstate(over="ignore"):
    converted = array.astype(dtype)
  if isinstance(array, jax.core.Tracer) or jax.numpy.finfo(array.dtype).max <= jax.numpy.finfo(dtype).max:
    return converted
  numpy = np if isinstance(array, np.ndarray) else jax.numpy
  num_lost = int(numpy.sum(numpy.isfinite(array) & ~numpy.isfinite(converted)))
  if num_lost:
    raise MatchError(
      f"apply: {name!r} of the target has dtype {np.dtype(dtype).name}, whose largest number is "
      f"{float(jax.numpy.finfo(dtype).max):g}; {num_lost} of the {array.size} numbers of {recipe} ({array.dtype.name}) "
      "are larger and would become infinite or NaN. Make the target with a wider dtype, such as bfloat16 or float32, "
      "or scale the parameter before."
    )
  return converted
