"""Spellings of gathers and scatters."""

from collections.abc import Iterator

from graftax.convert.source_code.spelling.registry import Call, spelled
from graftax.convert.source_code.spelling.texts import settings_text, text

__all__: list[str] = []


def _flags(e: Call) -> dict[str, object]:
  flags: dict[str, object] = {name: True for name in ("indices_are_sorted", "unique_indices") if e.settings.get(name)}
  mode = e.settings.get("mode")
  names = {"CLIP": "clip", "FILL_OR_DROP": "fill", "PROMISE_IN_BOUNDS": "promise_in_bounds"}
  name = getattr(mode, "name", str(mode)).split(".")[-1]
  return {**flags, "mode": names.get(name, mode)}


@spelled("gather")
def gather(e: Call) -> Iterator[str]:
  numbers = text(e.settings["dimension_numbers"])
  sizes = text(e.settings["slice_sizes"])
  flags = settings_text(_flags(e))
  yield f"lax.gather(_0, _1, {numbers}, {sizes}{flags})"
  fill = e.settings.get("fill_value")
  if fill is not None:
    yield f"lax.gather(_0, _1, {numbers}, {sizes}{flags}, fill_value={text(fill)})"


_SCATTERS = {
  "scatter-add": "scatter_add",
  "scatter_add": "scatter_add",
  "scatter-mul": "scatter_mul",
  "scatter_mul": "scatter_mul",
  "scatter-min": "scatter_min",
  "scatter_min": "scatter_min",
  "scatter-max": "scatter_max",
  "scatter_max": "scatter_max",
  "scatter-sub": "scatter_sub",
  "scatter_sub": "scatter_sub",
  "scatter": "scatter",
}


@spelled(*_SCATTERS)
def scatter(e: Call) -> Iterator[str]:
  name = _SCATTERS[e.equation.op]
  numbers = text(e.settings["dimension_numbers"])
  flags = settings_text(_flags(e))
  yield f"lax.{name}(_0, _1, _2, {numbers}{flags})"
  yield f"lax.scatter_apply(_0, _1, lambda x: x, {numbers}{flags})"
