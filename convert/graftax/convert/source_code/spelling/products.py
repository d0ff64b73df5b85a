"""Spellings of matrix products and convolutions."""

from collections.abc import Iterator, Sequence

from graftax.convert.source_code.spelling.registry import Call, spelled
from graftax.convert.source_code.spelling.texts import dtype_text, settings_text, text

__all__: list[str] = []

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@spelled("dot_general")
def dot_general(e: Call) -> Iterator[str]:
  contracted, batched = e.settings["dimension_numbers"]
  rest = ""
  for name in ("precision", "preferred_element_type"):
    if e.settings.get(name) is not None:
      try:
        rest += f", {name}={text(e.settings[name])}"
      except ValueError:
        return
  if not rest:
    yield "_0 @ _1"
    yield "jnp.dot(_0, _1)"
  else:
    yield f"jnp.matmul(_0, _1{rest})"
  if not any(batched) and not rest:
    yield f"jnp.tensordot(_0, _1, axes={len(contracted[0])})"
  equation = _einsum(e, *contracted, *batched)
  if equation:
    yield f'jnp.einsum("{equation}", _0, _1{rest})'
  numbers = text(e.settings["dimension_numbers"])
  yield f"lax.dot_general(_0, _1, {numbers}{rest})"


def _einsum(
  e: Call, left: Sequence[int], right: Sequence[int], left_batch: Sequence[int], right_batch: Sequence[int]
) -> str:
  """Returns the product in Einstein's notation; "" if it has more dimensions than letters."""
  ranks = len(e.in_shape(0)), len(e.in_shape(1))
  if sum(ranks) > len(_LETTERS):
    return ""
  names = list(_LETTERS[: ranks[0]]), [""] * ranks[1]
  for i, j in [*zip(left_batch, right_batch, strict=True), *zip(left, right, strict=True)]:
    names[1][j] = names[0][i]
  others = iter(_LETTERS[ranks[0] :])
  names[1][:] = [name or next(others) for name in names[1]]
  batch = [names[0][i] for i in left_batch]
  free = [n for d, n in enumerate(names[0]) if d not in left and n not in batch]
  free += [n for d, n in enumerate(names[1]) if d not in right and n not in batch]
  return f"{''.join(names[0])},{''.join(names[1])}->{''.join(batch + free)}"


@spelled("conv_general_dilated")
def conv_general_dilated(e: Call) -> Iterator[str]:
  numbers = e.settings["dimension_numbers"]
  names = [_layout(spec, letters) for spec, letters in zip(numbers, ("NC", "OI", "NC"), strict=True)]
  strides = e.ints("window_strides")
  padding = tuple(tuple(int(i) for i in p) for p in e.settings["padding"])
  rest: dict[str, object] = {}
  for name in ("lhs_dilation", "rhs_dilation"):
    if any(d != 1 for d in e.ints(name)):
      rest[name] = e.ints(name)
  for name in ("feature_group_count", "batch_group_count"):
    if e.settings.get(name) != 1:
      rest[name] = e.settings[name]
  for name in ("precision", "preferred_element_type"):
    if e.settings.get(name) is not None:
      rest[name] = e.settings[name]
  ordinary = rest.keys() <= {"feature_group_count"}
  layouts = f", dimension_numbers=({', '.join(chr(34) + name + chr(34) for name in names)})"
  padded = [['"SAME"'], ['"VALID"'] if all(p == (0, 0) for p in padding) else [], [text(padding)]]
  for pads in (p for some in padded for p in some):
    if pads == '"SAME"' and not ordinary:
      continue
    start = f"lax.conv_general_dilated(_0, _1, {text(strides)}, {pads}{layouts}"
    channels = names[0].index("C")
    if rest.get("feature_group_count") == e.in_shape()[channels]:
      others = {k: v for k, v in rest.items() if k != "feature_group_count"}
      last = -1 if channels == len(names[0]) - 1 else channels
      yield f"{start}, feature_group_count=_0.shape[{last}]{settings_text(others)})"
    yield f"{start}{settings_text(rest)})"


def _layout(spec: tuple[int, ...], letters: str) -> str:
  """Returns a layout such as "NHWC": `spec` has the positions of the batch, the channels and the sizes."""
  spatial = "DHW"[-(len(spec) - 2) :] if len(spec) <= 5 else "0123456789"[: len(spec) - 2]
  named = dict(zip(spec, letters + (spatial if len(spec) > 2 else ""), strict=True))
  return "".join(named[d] for d in range(len(spec)))


@spelled("fft")
def fft(e: Call) -> Iterator[str]:
  kind = e.settings["fft_type"]
  name = getattr(kind, "name", str(kind)).split(".")[-1]
  yield f'lax.fft(_0, "{name}", {text(e.settings["fft_lengths"])})'


@spelled("random_bits")
def random_bits(e: Call) -> Iterator[str]:
  yield f"jax.random.bits(_0, {text(e.settings['shape'])}, {dtype_text(e.dtype)})"


@spelled("random_wrap")
def random_wrap(e: Call) -> Iterator[str]:
  impl = e.settings["impl"]
  yield f'jax.random.wrap_key_data(_0, impl="{getattr(impl, "name", impl)}")'


@spelled("random_unwrap")
def random_unwrap(e: Call) -> Iterator[str]:
  yield "jax.random.key_data(_0)"


@spelled("random_seed")
def random_seed(e: Call) -> Iterator[str]:
  impl = e.settings["impl"]
  yield "jax.random.key(_0)"
  yield f'jax.random.key(_0, impl="{getattr(impl, "name", impl)}")'


@spelled("random_split")
def random_split(e: Call) -> Iterator[str]:
  shape = e.settings["shape"]
  yield f"jax.random.split(_0, {text(shape[0] if len(shape) == 1 else shape)})"


@spelled("random_fold_in")
def random_fold_in(e: Call) -> Iterator[str]:
  yield "jax.random.fold_in(_0, _1)"


@spelled("triangular_solve")
def triangular_solve(e: Call) -> Iterator[str]:
  yield f"lax.linalg.triangular_solve(_0, _1{settings_text(e.settings)})"


@spelled("cholesky")
def cholesky(e: Call) -> Iterator[str]:
  yield "lax.linalg.cholesky(_0, symmetrize_input=False)"


@spelled("svd")
def svd(e: Call) -> Iterator[str]:
  if not e.settings.get("compute_uv"):
    yield "jnp.linalg.svd(_0, compute_uv=False)"
  # JAX returns the singular values between the vectors, and its primitive returns them first.
  yield f"(lambda u, s, vt: (s, u, vt))(*lax.linalg.svd(_0, full_matrices={e.settings.get('full_matrices')}))"


@spelled("ragged_dot_general")
def ragged_dot_general(e: Call) -> Iterator[str]:
  rest = settings_text({n: e.settings[n] for n in ("precision", "preferred_element_type") if n in e.settings})
  yield f"lax.ragged_dot({e.args}{rest})"
  numbers = e.settings["ragged_dot_dimension_numbers"]
  names = ("dot_dimension_numbers", "lhs_ragged_dimensions", "rhs_group_dimensions")
  fields = settings_text({name: getattr(numbers, name) for name in names}).removeprefix(", ")
  yield f"lax.ragged_dot_general({e.args}, lax.RaggedDotDimensionNumbers({fields}){rest})"


@spelled("eigh")
def eigh(e: Call) -> Iterator[str]:
  lower, ordered = text(e.settings.get("lower", True)), text(e.settings.get("sort_eigenvalues", True))
  yield f"lax.linalg.eigh(_0, lower={lower}, symmetrize_input=False, sort_eigenvalues={ordered})"
