"""StableHLO as text: types, attributes, regions, calls, custom calls, and numbers that are too large."""

# ruff: noqa: E501  (an op of MLIR is written on one line)

from collections.abc import Callable

from graftax.testing.hostile.draw import Draw
from graftax.testing.hostile.grammar.readers import use_module
from graftax.testing.hostile.registry import Attempt, Box, Expectation, attempted, family
from graftax.xla_call_module import Module

_KIND = "stablehlo_text"
_TYPES = "f32 f64 i32 i64 i1 ui8 bf16 f16 complex<f32> i4 f8E4M3FN i128 index !stablehlo.token".split()
_M, _V, _I = "tensor<4x4xf32>", "tensor<4xf32>", "tensor<i32>"
MakeText = Callable[[Draw], str]


def _text_attempt(draw: Draw, box: Box, text: str, expectation: Expectation = "typed") -> Attempt:
  """Returns the attempt to lift or embed a module, which is read in a helper process first."""
  (box.model / "module.mlir").write_text(text, errors="surrogatepass")
  embed, jit = draw.chance(0.3), draw.chance(0.5)
  return Attempt(lambda: use_module(Module.from_text(text, guard=True), embed=embed, jit=jit), expectation)


def _main(body: str, arguments: str = "%x: tensor<4xf32>", results: str = "tensor<4xf32>", others: str = "") -> str:
  """Returns a module with a function `main`."""
  return f"module @m {{\n  func.func public @main({arguments}) -> ({results}) {{\n{body}\n  }}\n{others}\n}}\n"


def _of_one_op(op: str, kind: str, before: str = "", arguments: str = "%x: tensor<4xf32>", others: str = "") -> str:
  """Returns a module whose function returns the result of an op of this type."""
  return _main(f"{before}    %0 = {op}\n    return %0 : {kind}", arguments, kind, others)


def _size(draw: Draw, honest: int = 4) -> int:
  return draw.size(honest)


def attempt_of(make_text: MakeText, draw: Draw, box: Box, expectation: Expectation = "typed") -> Attempt:
  """Reads a text."""
  return _text_attempt(draw, box, make_text(draw), expectation)


_ADD = "    %0 = stablehlo.add %x, %x : tensor<4xf32>\n    return %0 : tensor<4xf32>"


@attempted("loaded")
def honest(draw: Draw) -> str:
  del draw
  return _main(_ADD)


def types(draw: Draw) -> str:
  kind = f"tensor<{draw.pick('4x', '', '0x', '?x', '*x', '-1x', '99999999999999999999x', '4x4294967296x')}{draw.pick(*_TYPES)}>"
  return _of_one_op(f"stablehlo.add %x, %x : {kind}", kind, arguments=f"%x: {kind}")


@attempted("refused")
def types_that_differ(draw: Draw) -> str:
  other = draw.pick("tensor<5xf32>", "tensor<4xf64>", "tensor<4xi32>", "tensor<f32>", "tensor<4x1xf32>")
  return _main(
    f"    %0 = stablehlo.add %x, %x : {other}\n    return %0 : {other}", results=draw.pick(other, "tensor<4xf32>")
  )


def constants(draw: Draw) -> str:
  values = [
    "1.0",
    "[1.0, 2.0, 3.0, 4.0]",
    '"0x0000803F"',
    '"0x"',
    '"0x' + "00" * 16 + '"',
    '"0xZZ"',
    "[]",
    "[[1.0]]",
    "1.0e999",
    "0xFFFFFFFF",
    "true",
    "[1.0, 2.0]",
  ]
  kind = f"tensor<{draw.pick('4xf32', f'{abs(_size(draw))}xf32', '4xi1', '4xi64', '1099511627776xf32')}>"
  return _of_one_op(f"stablehlo.constant dense<{draw.pick(*values)}> : {kind}", kind)


def resources(draw: Draw) -> str:
  data = draw.pick("0x04000000" + "00" * 16, "0x", "0x04000000", "0xFFFFFFFF00", "zz", "0x00000000" + "11" * 16)
  text = _of_one_op(f"stablehlo.constant dense_resource<r> : {_V}", _V)
  return f'{text}\n{{-# dialect_resources: {{ builtin: {{ {draw.pick("r", "q")}: "{data}" }} }} #-}}\n'


_LARGE = {
  "large_iota": lambda n: f"    %0 = stablehlo.iota dim = 0 : tensor<{n}xf32>",
  "large_broadcast": lambda n: f"    %0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<{n}xf32>",
  "large_constant": lambda n: f"    %0 = stablehlo.constant dense<1.0> : tensor<{n}xf32>",
  "large_pad": lambda n: (
    f"    %0 = stablehlo.pad %x, %s, low = [0], high = [{n - 4}], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<{n}xf32>"
  ),
  "large_known_iota": lambda n: (
    f"    %i = stablehlo.iota dim = 0 : tensor<{n}xi32>\n    %0 = stablehlo.convert %i : (tensor<{n}xi32>) -> tensor<{n}xf32>"
  ),
  "large_concatenate": lambda n: (
    f"    %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<{n // 2}xf32>\n    %0 = stablehlo.concatenate %b, %b, dim = 0 : (tensor<{n // 2}xf32>, tensor<{n // 2}xf32>) -> tensor<{n // 2 * 2}xf32>"
  ),
}


def _large(make: Callable[[int], str], draw: Draw, box: Box) -> Attempt:
  n = draw.pick(1 << 10, 1 << 31, 1 << 34, 1 << 44, 1 << 60)
  lines = [make(n), "    %zero = stablehlo.constant dense<0.0> : tensor<f32>"]
  lines += [f"    %r = stablehlo.slice %0 [0:4] : (tensor<{n}xf32>) -> tensor<4xf32>", "    return %r : tensor<4xf32>"]
  return _text_attempt(draw, box, _main("\n".join(["    %s = stablehlo.constant dense<0.0> : tensor<f32>", *lines])))


family(_KIND, _LARGE, _large)


def slices(draw: Draw) -> str:
  a, b, c = _size(draw, 0), _size(draw, 4), _size(draw, 1)
  kind = f"tensor<{draw.pick(4, 3, 0)}xf32>"
  return _of_one_op(f"stablehlo.slice %x [{a}:{b}:{c}] : ({_V}) -> {kind}", kind)


def gathers(draw: Draw) -> str:
  numbers = (
    f"offset_dims = [{_size(draw, 0)}], collapsed_slice_dims = [{draw.pick('', '0', '5', '-1')}], "
    f"start_index_map = [{_size(draw, 0)}], index_vector_dim = {_size(draw, 0)}"
  )
  return _main(
    f"    %i = stablehlo.constant dense<[{draw.pick(0, 5, -1, 1 << 30)}]> : tensor<1xi32>\n"
    f'    %0 = "stablehlo.gather"(%x, %i) {{dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = array<i64: {_size(draw, 4)}>, '
    "indices_are_sorted = false} : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>"
  )


def scatters(draw: Draw) -> str:
  numbers = f"update_window_dims = [{draw.pick('', '0', '9', '-1')}], inserted_window_dims = [{_size(draw, 0)}], scatter_dims_to_operand_dims = [{_size(draw, 0)}], index_vector_dim = {_size(draw, 1)}"
  return _main(
    f"    %i = stablehlo.constant dense<{draw.pick(0, 9, -5)}> : tensor<2x1xi32>\n    %u = stablehlo.constant dense<1.0> : tensor<2xf32>\n"
    f'    %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}> ({{\n'
    "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n      stablehlo.return %b : tensor<f32>\n    }) : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf32>\n"
    "    return %0 : tensor<4xf32>"
  )


def windows(draw: Draw) -> str:
  attributes = f"window_dimensions = array<i64: {_size(draw, 2)}>, window_strides = array<i64: {_size(draw, 1)}>, window_dilations = array<i64: {_size(draw, 1)}>, base_dilations = array<i64: {_size(draw, 1)}>"
  padding = f"padding = dense<[[{_size(draw, 0)}, {_size(draw, 0)}]]> : tensor<1x2xi64>"
  n = draw.pick(3, 4, 1)
  return _main(
    "    %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
    f'    %0 = "stablehlo.reduce_window"(%x, %z) <{{{attributes}, {padding}}}> ({{\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
    "      %s = stablehlo.add %a, %b : tensor<f32>\n      stablehlo.return %s : tensor<f32>\n    }) : (tensor<4xf32>, tensor<f32>) -> "
    f"tensor<{n}xf32>\n    return %0 : tensor<{n}xf32>",
    results=f"tensor<{n}xf32>",
  )


def convolutions(draw: Draw) -> str:
  window = f"stride = [{_size(draw, 1)}], pad = [[{_size(draw, 0)}, 0]], lhs_dilate = [{_size(draw, 1)}], rhs_dilate = [{_size(draw, 1)}]"
  return _main(
    f"    %k = stablehlo.constant dense<1.0> : tensor<2x1x1xf32>\n    %y = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<1x4x1xf32>\n"
    f"    %0 = stablehlo.convolution(%y, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{{window}}} "
    f"{{batch_group_count = {_size(draw, 1)} : i64, feature_group_count = {_size(draw, 1)} : i64}} : (tensor<1x4x1xf32>, tensor<2x1x1xf32>) -> tensor<1x3x1xf32>\n"
    "    %1 = stablehlo.slice %0 [0:1, 0:3, 0:1] : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>\n    return %1 : tensor<1x3x1xf32>",
    results="tensor<1x3x1xf32>",
  )


def dots(draw: Draw) -> str:
  dims = f"batching_dims = [{draw.pick('', '0', '-1')}] x [{draw.pick('', '0', '7')}], contracting_dims = [{_size(draw, 0)}] x [{_size(draw, 0)}]"
  return _of_one_op(f"stablehlo.dot_general %x, %x, {dims} : ({_V}, {_V}) -> tensor<f32>", "tensor<f32>")


def sorts(draw: Draw) -> str:
  compare = draw.pick(
    "%c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>",
    "%c = stablehlo.constant dense<true> : tensor<i1>",
  )
  return _main(
    f'    %0 = "stablehlo.sort"(%x) <{{dimension = {_size(draw, 0)} : i64, is_stable = true}}> ({{\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
    f"      {compare}\n      stablehlo.return %c : tensor<i1>\n    }}) : (tensor<4xf32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>"
  )


def _while(limit: str, step: int, before: str = "0") -> str:
  return (
    f"    %i0 = stablehlo.constant dense<{before}> : tensor<i32>\n    %n = stablehlo.constant dense<{limit}> : tensor<i32>\n"
    f"    %d = stablehlo.constant dense<{step}> : tensor<i32>\n"
    "    %0:2 = stablehlo.while(%i = %i0, %y = %x) : tensor<i32>, tensor<4xf32>\n     cond {\n"
    "      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n      stablehlo.return %c : tensor<i1>\n    } do {\n"
    "      %j = stablehlo.add %i, %d : tensor<i32>\n      %z = stablehlo.add %y, %y : tensor<4xf32>\n      stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>\n    }\n"
    "    return %0#1 : tensor<4xf32>"
  )


def loops(draw: Draw) -> str:
  # A loop that runs long is what its caller asked for; one that never runs costs nothing.
  step = draw.pick(1, -1, 0, 1 << 30)
  return _main(_while(draw.pick("3", "0", "-5"), step if step == 1 else 1, draw.pick("0", "3", "2147483647")))


def loops_of_known_length(draw: Draw) -> str:
  # The counter can be walked while tracing, the body must not be.
  return _main(_while(draw.pick("3", "1000000"), draw.pick(1, 7)))


@attempted("refused")
def functions_that_call_themselves(draw: Draw) -> str:
  names = ["f", draw.pick("f", "g")]
  bodies = "\n".join(
    f"  func.func private @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n    %0 = call @{callee}(%x) : (tensor<4xf32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }}"
    for name, callee in ([("f", "f")] if names[1] == "f" else [("f", "g"), ("g", "f")])
  )
  return _of_one_op(f"call @f(%x) : ({_V}) -> {_V}", _V, others=bodies)


def _chain(depth: int, body: Callable[[int], str]) -> str:
  """Returns a module with functions `f0`, a sine, and `f1`, ..., whose body makes `%0` with the function before."""
  bodies = [f"    %0 = stablehlo.sine %x : {_V}\n", *map(body, range(1, depth))]
  functions = [
    f"  func.func private @f{i}(%x: {_V}) -> {_V} {{\n{b}    return %0 : {_V}\n  }}" for i, b in enumerate(bodies)
  ]
  return _of_one_op(f"call @f{depth - 1}(%x) : ({_V}) -> {_V}", _V, others="\n".join(functions))


def functions_that_call_two_each(draw: Draw) -> str:
  def body(i: int) -> str:
    return f"    %s = call @f{i - 1}(%x) : ({_V}) -> {_V}\n    %0 = call @f{i - 1}(%s) : ({_V}) -> {_V}\n"

  return _chain(draw.pick(3, 25, 60), body)


def cases_that_call_two_each(draw: Draw) -> str:
  def body(i: int) -> str:
    branch = f"      %b = func.call @f{i - 1}(%x) : ({_V}) -> {_V}\n      stablehlo.return %b : {_V}\n"
    return (
      f"    %s = stablehlo.slice %x [0:1] : ({_V}) -> tensor<1xf32>\n    %r = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>\n"
      f'    %i = stablehlo.convert %r : (tensor<f32>) -> tensor<i32>\n    %0 = "stablehlo.case"(%i) ({{\n{branch}    }}, {{\n{branch}    }}) : (tensor<i32>) -> {_V}\n'
    )

  return _chain(draw.pick(3, 25, 40), body)


def regions_deep(draw: Draw) -> str:
  depth = draw.pick(3, 60, 400, 5000)
  one = "tensor<4xf32>"
  opening = '%c{0} = "stablehlo.if"(%p) ({{\n'
  closing = f"      stablehlo.return %c{{0}} : {one}\n    }}}}, {{{{\n      stablehlo.return %x : {one}\n    }}}}) : (tensor<i1>) -> {one}\n"
  text = "    %p = stablehlo.constant dense<true> : tensor<i1>\n"
  text += "".join(opening.format(i) for i in range(depth))
  text += f"      %c{depth} = stablehlo.sine %x : {one}\n"
  text += "".join(closing.format(i + 1) for i in reversed(range(depth))).replace("{{", "{").replace("}}", "}")
  return _main(f"{text}    return %c0 : {one}")


def types_deep(draw: Draw) -> str:
  depth = draw.pick(2, 100, 10_000)
  kind = "tuple<" * depth + "tensor<4xf32>" + ">" * (depth if draw.chance(0.8) else depth - 1)
  return _main("    return %x : tensor<4xf32>", f"%x: tensor<4xf32>, %y: {kind}")


def attributes_deep(draw: Draw) -> str:
  depth = draw.pick(2, 200, 20_000)
  return _main(_ADD).replace("module @m", f"module @m attributes {{a = {'[' * depth}{']' * depth}}}")


def names_of_functions(draw: Draw) -> str:
  name = draw.lie("main", "", "other", "main ", "x" * 70_000, "..", "\\00")
  return _main(_ADD).replace("@main", f'@"{name}"')


def functions_without_body(draw: Draw) -> str:
  return _of_one_op(
    f"call @f(%x) : ({_V}) -> {_V}", _V, others=f"  func.func private @{draw.pick('f', 'g')}({_V}) -> {_V}"
  )


def dynamic_shapes(draw: Draw) -> str:
  sizes = ", ".join(str(_size(draw, 4)) for _ in range(draw.pick(1, 2)))
  count = sizes.count(",") + 1
  op = draw.pick("dynamic_iota", "dynamic_broadcast_in_dim", "dynamic_reshape")
  kind = f"tensor<{draw.pick('?xf32', '4xf32', '?x?xf32')}>"
  operands = {"dynamic_iota": "%s", "dynamic_broadcast_in_dim": "%x, %s", "dynamic_reshape": "%x, %s"}[op]
  types = {"dynamic_iota": "(tensor<{0}xi64>)"}.get(op, "(tensor<4xf32>, tensor<{0}xi64>)").format(count)
  extra = {
    "dynamic_iota": " {iota_dimension = 0 : i64}",
    "dynamic_broadcast_in_dim": " {broadcast_dimensions = array<i64: 0>}",
  }.get(op, "")
  before = f"    %s = stablehlo.constant dense<[{sizes}]> : tensor<{count}xi64>\n"
  return _of_one_op(f'"stablehlo.{op}"({operands}){extra} : {types} -> {kind}', kind, before)


def polymorphic_arguments(draw: Draw) -> str:
  size = draw.pick("?", "?", "4")
  return _main(
    f"    %n = stablehlo.get_dimension_size %x, dim = {draw.pick(0, 1, -1)} : (tensor<{size}xf32>) -> tensor<i32>\n    %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
    f"    %m = stablehlo.constant dense<{draw.pick(1, 1 << 30, -1)}> : tensor<1xi32>\n    %k = stablehlo.multiply %r, %m : tensor<1xi32>\n"
    "    %0 = stablehlo.dynamic_iota %k, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>\n    return %0 : tensor<?xf32>",
    f"%x: tensor<{size}xf32>",
    "tensor<?xf32>",
  )


def donated_arguments(draw: Draw) -> str:
  attribute = draw.pick(
    "tf.aliasing_output = 0 : i32",
    "tf.aliasing_output = 99 : i32",
    "jax.buffer_donor = true",
    'mhlo.sharding = "{devices=[9999999999]0}"',
    'jax.global_constant = "x"',
    "tf.aliasing_output = -1 : i32",
  )
  return _main(_ADD, f"%x: tensor<4xf32> {{{attribute}}}")


def shardings(draw: Draw) -> str:
  mesh = f'  sdy.mesh @mesh = <["a"={_size(draw, 2)}]>'
  text = draw.pick(
    "{replicated}",
    "{devices=[2]<=[2]}",
    "{devices=[-1]0}",
    "{",
    "x" * 5000,
    "{devices=[99999999999999]<=[99999999999999]}",
    "{maximal device=-5}",
  )
  call = f'stablehlo.custom_call @Sharding(%x) {{mhlo.sharding = "{text}"}} : ({_V}) -> {_V}'
  return _of_one_op(call, _V, others=mesh)


_TARGETS = (
  "lapack_sgeqp3_ffi lapack_spotrf_ffi lapack_sgetrf_ffi lapack_ssyevd_ffi lapack_sgesdd_ffi lapack_strsm_ffi "
  "lapack_sgeqrf_ffi lapack_sorgqr_ffi lapack_sgehrd_ffi lapack_sgees_ffi lapack_ssytrd_ffi lapack_sgtsv_ffi "
  "cpu_csr_sparse_dense_ffi xla_ffi_python_cpu_callback xla_python_cpu_callback "
  "xla_ffi_partitioned_python_cpu_callback cu_threefry2x32_ffi ducc_fft dynamic_ducc_fft TopK mhlo.topk Eigh Qr "
  "ProductOfElementaryHouseholderReflectors tf.call_tf_function annotate_device_placement shape_assertion "
  "stablehlo.dynamic_top_k SPMDFullToShardShape nothing __gpu$xla.gpu.triton blas_strsm lapack_sgetrf SliceToDynamic "
  "PadToStatic check.eq AllocateBuffer cholesky_f32"
).split()


def custom_calls(draw: Draw) -> str:
  target = draw.pick(*_TARGETS)
  kinds = (
    "tensor<4x4xf32> tensor<4xf32> tensor<1xf32> tensor<f32> tensor<i32> tensor<4xi32> tensor<0xf32> tensor<4x4xf64> "
    "tensor<64x64xf32> tensor<ui8>"
  ).split()
  count = draw.integer(0, 4)
  operands = [draw.pick(*kinds) for _ in range(count)]
  results = [draw.pick(*kinds) for _ in range(draw.integer(0, 4))]
  config = draw.pick(
    "",
    ", backend_config = {}",
    ', backend_config = "x"',
    ", mhlo.backend_config = {uplo = 85 : ui8}",
    f", backend_config = {{index = {_size(draw, 0)} : ui64}}",
    ", mhlo.backend_config = {mode = 65 : ui8, left = true}",
  )
  version = draw.pick(4, 1, 2, 3, 0)
  constants = "".join(
    f"    %a{i} = stablehlo.constant dense<{1.0 if 'f' in kind.split('x')[-1] and 'u' not in kind else 1}> : {kind}\n"
    for i, kind in enumerate(operands)
  )
  names = ", ".join(f"%a{i}" for i in range(count))
  outputs = f"%0:{len(results)} = " if results else ""
  returned = ", ".join(f"%0#{i}" for i in range(len(results)))
  types = ", ".join(results)
  return _main(
    f"{constants}    {outputs}stablehlo.custom_call @{target if '$' not in target else 'x'}({names}) {{api_version = {version} : i32, has_side_effect = {draw.pick('false', 'true')}{config}}} : ({', '.join(operands)}) -> ({types})\n"
    f"    return {returned} : {types}"
    if results
    else _ADD,
    results=types or "tensor<4xf32>",
  )


def _kernel(row: tuple[list[str], list[str], str], draw: Draw, box: Box) -> Attempt:
  """A call of a kernel by its right name, with one operand, result or attribute of another type or size."""
  operands, results, attributes = row
  kinds = (
    "tensor<1xf32> tensor<f32> tensor<1500xi32> tensor<0xf32> tensor<4x4xf64> tensor<2x2xf32> tensor<64x64xf32> "
    "tensor<i32>"
  ).split()
  given = [draw.lie(kind, *kinds, probability=0.3) for kind in operands]
  made = [draw.lie(kind, *kinds, probability=0.4) for kind in results]
  constants = "".join(
    f"    %a{i} = stablehlo.constant dense<{'1.0' if 'f' in kind else '1'}> : {kind}\n" for i, kind in enumerate(given)
  )
  names = ", ".join(f"%a{i}" for i in range(len(given)))
  count = draw.pick(len(made), len(made), max(1, len(made) - 1))
  made = made[:count]
  target, _, config = attributes.partition(" ")
  for old in ("85 : ui8", "76 : ui8", "86 : ui8", "65 : ui8", "true"):
    config = config.replace(old, draw.lie(old, "0 : ui8", "255 : ui8", "7 : i64", '"x"', probability=0.3))
  config = draw.lie(config, "", probability=0.15)
  returned = ", ".join(f"%0#{i}" for i in range(count))
  text = _main(
    f"{constants}    %0:{count} = stablehlo.custom_call @{target}({names}) {{api_version = 4 : i32, backend_config = {{{config}}}}} : ({', '.join(given)}) -> ({', '.join(made)})\n    return {returned} : {', '.join(made)}",
    results=", ".join(made),
  )
  return _text_attempt(draw, box, text)


_KERNELS = {
  "kernel_geqp3": ([_M, "tensor<4xi32>"], [_M, "tensor<4xi32>", _V], "lapack_sgeqp3_ffi "),
  "kernel_potrf": ([_M], [_M, _I], "lapack_spotrf_ffi uplo = 76 : ui8"),
  "kernel_getrf": ([_M], [_M, "tensor<4xi32>", _I], "lapack_sgetrf_ffi "),
  "kernel_geqrf": ([_M], [_M, _V], "lapack_sgeqrf_ffi "),
  "kernel_orgqr": ([_M, _V], [_M], "lapack_sorgqr_ffi "),
  "kernel_syevd": ([_M], [_M, _V, _I], "lapack_ssyevd_ffi mode = 86 : ui8, uplo = 76 : ui8"),
  "kernel_gesdd": ([_M], [_M, _V, _M, _M, _I], "lapack_sgesdd_ffi mode = 65 : ui8"),
  "kernel_trsm": (
    [_M, _M],
    [_M],
    "lapack_strsm_ffi diag = 85 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8",
  ),
  "kernel_gehrd": ([_M], [_M, "tensor<3xf32>", _I], "lapack_sgehrd_ffi high = 4 : i32, low = 1 : i32"),
  "kernel_gees": ([_M], [_M, _M, _V, _V, _I, _I], "lapack_sgees_ffi mode = 86 : ui8, sort = 78 : ui8"),
  "kernel_sytrd": ([_M], [_M, _V, "tensor<3xf32>", "tensor<3xf32>", _I], "lapack_ssytrd_ffi uplo = 76 : ui8"),
  "kernel_gtsv": (
    ["tensor<4xf32>", "tensor<4xf32>", "tensor<4xf32>", "tensor<4x1xf32>"],
    ["tensor<4xf32>"] * 3 + ["tensor<4x1xf32>", _I],
    "lapack_sgtsv_ffi ",
  ),
  "kernel_csr": (
    ["tensor<3xf32>", "tensor<3xi32>", "tensor<5xi32>", "tensor<4x2xf32>"],
    ["tensor<4x2xf32>"],
    "cpu_csr_sparse_dense_ffi ",
  ),
}
family(_KIND, _KERNELS, _kernel)


def composites(draw: Draw) -> str:
  name = draw.pick("chlo.top_k", "chlo.asin", "odml.scaled_dot_product_attention", "x", "")
  decomposition = draw.pick("@f", "@main", "@nothing")
  attributes = f"composite_attributes = {{k = {_size(draw, 2)} : i64}}, decomposition = {decomposition}, version = {draw.pick(1, -1)} : i32"
  others = f"  func.func private @f(%x: {_V}) -> {_V} {{\n    return %x : {_V}\n  }}"
  return _of_one_op(f'stablehlo.composite "{name}" %x {{{attributes}}} : ({_V}) -> {_V}', _V, others=others)


def other_dialects(draw: Draw) -> str:
  line = draw.pick(
    "chlo.erf %x : tensor<4xf32> -> tensor<4xf32>",
    '"mhlo.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>',
    "arith.addf %x, %x : tensor<4xf32>",
    '"llvm.inline_asm"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
    '"vhlo.add_v1"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>',
    '"tf.ReadFile"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
  )
  return _of_one_op(line, _V)


def collectives(draw: Draw) -> str:
  groups = draw.pick("[[0]]", "[[0, 1]]", "[[-1]]", "[[0, 0]]", "[[9999999]]")
  op = draw.pick("all_gather", "all_to_all", "collective_permute", "collective_broadcast")
  extra = {
    "all_gather": f"all_gather_dim = {_size(draw, 0)} : i64, ",
    "all_to_all": f"concat_dimension = 0 : i64, split_dimension = {_size(draw, 0)} : i64, split_count = {_size(draw, 1)} : i64, ",
  }.get(op, "")
  name = "source_target_pairs" if op == "collective_permute" else "replica_groups"
  shape = f"1x{groups.count(',') + 1}"
  return _of_one_op(
    f'"stablehlo.{op}"(%x) <{{{extra}{name} = dense<{groups}> : tensor<{shape}xi64>}}> : ({_V}) -> {_V}', _V
  )


def random_bits(draw: Draw) -> str:
  algorithm = draw.pick("THREE_FRY", "PHILOX", "DEFAULT", "NOTHING")
  state = draw.pick(
    "tensor<2xui64>", "tensor<3xui64>", "tensor<1xui64>", "tensor<9xui64>", "tensor<2xui32>", "tensor<ui64>"
  )
  n = draw.pick(4, 1 << 33, 0)
  return _main(
    f"    %s = stablehlo.constant dense<1> : {state}\n    %0, %1 = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : ({state}) -> ({state}, tensor<{n}xui32>)\n    return %1 : tensor<{n}xui32>",
    results=f"tensor<{n}xui32>",
  )


def ffts(draw: Draw) -> str:
  kind = draw.pick("RFFT", "FFT", "IRFFT")
  result = f"tensor<{draw.pick(3, 4, 6)}x{'f32' if kind == 'IRFFT' else 'complex<f32>'}>"
  return _of_one_op(f"stablehlo.fft %x, type = {kind}, length = [{_size(draw, 4)}] : ({_V}) -> {result}", result)


def characters(draw: Draw) -> str:
  text = _main(_ADD)
  for _ in range(draw.integer(1, 3)):
    position = draw.integer(0, len(text))
    text = (
      text[:position]
      + draw.pick("\0", "\udcff", "é", "{", "%", "#", '"', "//", "x" * 10_000, "loc(#l)")
      + text[position:]
    )
  return text


def locations(draw: Draw) -> str:
  depth = draw.pick(1, 100, 5000)
  location = "callsite(" * depth + '"a"' + ' at "b")' * depth
  return _main(_ADD.replace(": tensor<4xf32>\n", f": tensor<4xf32> loc({location})\n", 1))


_ALIASES = {  # the first alias of a chain, and one that holds the alias before it twice
  "#a": ("[1, 2]", "[@, @]"),
  "#d": ("[1, 2]", "{x = @, y = @}"),
  "!t": ("tuple<tensor<f32>>", "tuple<@, @>"),
  "!f": ("(i32) -> ()", "(@, @) -> (@)"),
  "#loc": ('loc("x")', "loc(callsite(@ at @))"),
}


def aliases(draw: Draw) -> str:
  count, sign = draw.pick(3, 25, 60), draw.pick(*_ALIASES)
  first, step = _ALIASES[sign]
  lines = [f"{sign}0 = {first}", *(f"{sign}{i} = {step.replace('@', f'{sign}{i - 1}')}" for i in range(1, count))]
  last, name = f"{sign}{count - 1}", draw.pick("m.a", "a")
  if sign == "#loc":
    text = _main(_ADD.replace(": tensor<4xf32>\n", f": tensor<4xf32> loc({last})\n", 1))
  else:
    text = _main(_ADD).replace("module @m", f"module @m attributes {{{name} = {last}}}")
  return draw.pick("\n", " ", " // #b = [\n").join(lines) + "\n" + text
