"""Modules of a few bytes that ask for much: each is refused at once, naming the limit, by lifting and embedding."""

import concurrent.futures

import jax
import numpy as np
import pytest

from graftax.xla_call_module import LimitExceededError, Limits, Module, UnsupportedModuleError, embed, lift

_X = np.float32(1)


def _chain(num, body):
  """Returns a module of functions f0, f1, ..., each of which calls the next one as `body` says."""
  functions = [
    f"""func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> {{
      {body.replace("NEXT", f"@f{i + 1}")}
      return %r : tensor<f32> }}"""
    for i in range(num)
  ]
  return Module.from_text(f"""module {{
    func.func public @main(%a: tensor<f32>) -> tensor<f32> {{
      %r = call @f0(%a) : (tensor<f32>) -> tensor<f32>
      return %r : tensor<f32> }}
    {" ".join(functions)}
    func.func private @f{num}(%x: tensor<f32>) -> tensor<f32> {{
      %r = stablehlo.sine %x : tensor<f32>
      return %r : tensor<f32> }} }}""")


_ONCE = """%r = call NEXT(%x) : (tensor<f32>) -> tensor<f32>
"""
_TWICE = """%p = call NEXT(%x) : (tensor<f32>) -> tensor<f32>
  %r = call NEXT(%p) : (tensor<f32>) -> tensor<f32>
"""
_BRANCHES = """%c = stablehlo.convert %x : (tensor<f32>) -> tensor<i32>
  %r = "stablehlo.case"(%c) ({
    %p = func.call NEXT(%x) : (tensor<f32>) -> tensor<f32>
    stablehlo.return %p : tensor<f32> }, {
    %p = func.call NEXT(%x) : (tensor<f32>) -> tensor<f32>
    stablehlo.return %p : tensor<f32> }) : (tensor<i32>) -> tensor<f32>
"""


def _nested(num):
  regions = "".join(f'%v{i} = "stablehlo.if"(%c) ({{\n' for i in range(num))
  ends = "".join(
    f"}}, {{ stablehlo.return %a : tensor<f32> }}) : (tensor<i1>) -> tensor<f32>\n{word} %v{i} : tensor<f32>\n"
    for i in range(num - 1, -1, -1)
    for word in ["stablehlo.return" if i else "return"]
  )
  return f"""module {{ func.func public @main(%a: tensor<f32>, %c: tensor<i1>) -> tensor<f32> {{
    {regions} stablehlo.return %a : tensor<f32>
    {ends} }} }}"""


def _array(text):
  return Module.from_text(f"""module {{ func.func public @main(%a: tensor<f32>) -> tensor<f32> {{
    {text}
    return %a : tensor<f32> }} }}""")


_HUGE = "tensor<1000000x1000000xf32>"
_LARGE = {
  "iota": f"%b = stablehlo.iota dim = 0 : {_HUGE}",
  "broadcast": f"%b = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> {_HUGE}",
  "splat": f"%b = stablehlo.constant dense<1.0> : {_HUGE}",
  "pad": f"""%e = stablehlo.reshape %a : (tensor<f32>) -> tensor<1x1xf32>
    %b = stablehlo.pad %e, %a, low = [0, 0], high = [999999, 999999], interior = [0, 0] :
        (tensor<1x1xf32>, tensor<f32>) -> {_HUGE}""",
  "random": """%s = stablehlo.constant dense<1> : tensor<2xui64>
    %o, %b = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY :
        (tensor<2xui64>) -> (tensor<2xui64>, tensor<1000000000000xui32>)""",
}


@pytest.mark.parametrize("way", [lift, embed])
@pytest.mark.parametrize("body", [_TWICE, _BRANCHES], ids=["calls", "branches"])
def test_calls_that_multiply_are_refused(way, body):
  with pytest.raises(LimitExceededError, match=r"function 'main' needs \d+ steps.*limits=Limits\(steps=\d+\)") as found:
    way(_chain(25, body))
  assert found.value.limit == "steps" and found.value.needed > 2**25


@pytest.mark.parametrize("way", [lift, embed])
def test_functions_and_regions_that_are_too_deep_are_refused_until_the_caller_allows_them(way):
  with pytest.raises(LimitExceededError, match="needs 101 levels inside each other; the limit depth is 100"):
    way(_chain(400, _ONCE))
  with pytest.raises(LimitExceededError, match="a region needs 101 levels"):
    Module.from_text(_nested(400))
  deep = Module.from_text(_nested(120), limits=Limits(depth=150))
  with pytest.raises(LimitExceededError, match="limits=Limits"):
    way(deep)
  np.testing.assert_allclose(way(_chain(120, _ONCE), limits=Limits(depth=150))(_X)[0], np.sin(_X), rtol=1e-6)


@pytest.mark.parametrize("way", [lift, embed])
@pytest.mark.parametrize("name", _LARGE)
def test_arrays_of_huge_declared_sizes_are_refused(way, name):
  with pytest.raises(LimitExceededError, match=r"stablehlo\.\w+ at .* needs 4000000000000 bytes for an array"):
    way(_array(_LARGE[name]))


_OUTER = """module { func.func public @main(%x: tensor<1000xf32>) -> tensor<1000xROWSxf32> {
  %r = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<1000xf32>) -> tensor<1000xROWSxf32>
  return %r : tensor<1000xROWSxf32> } }"""


@pytest.mark.parametrize("way", [lift, embed])
def test_arrays_may_be_a_hundred_times_as_large_as_the_arguments(way):
  limits = Limits(array_bytes=1000, known_bytes=1000)
  way(Module.from_text(_OUTER.replace("ROWS", "100")), limits=limits)
  with pytest.raises(LimitExceededError, match="needs 404000 bytes"):
    way(Module.from_text(_OUTER.replace("ROWS", "101")), limits=limits)


def test_an_array_whose_declared_size_is_open_is_refused_when_its_size_is_known():
  module = _array("""%n = stablehlo.constant dense<[1000000, 1000000]> : tensor<2xi32>
    %b = stablehlo.dynamic_iota %n, dim = 0 : (tensor<2xi32>) -> tensor<?x?xf32>""")
  with pytest.raises(LimitExceededError, match="stablehlo.dynamic_iota at .* needs 4000000000000 bytes"):
    jax.eval_shape(lift(module), _X)


def test_a_function_of_other_known_arguments_each_time_counts_its_ops():
  functions = "".join(
    f"""func.func private @f{i}(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {{
      %d = stablehlo.add %n, %n : tensor<i32>
      %p = call @f{i + 1}(%n, %x) : (tensor<i32>, tensor<f32>) -> tensor<f32>
      %q = call @f{i + 1}(%d, %p) : (tensor<i32>, tensor<f32>) -> tensor<f32>
      return %q : tensor<f32> }}"""
    for i in range(8)
  )
  module = Module.from_text(f"""module {{
    func.func public @main(%a: tensor<f32>) -> tensor<f32> {{
      %z = stablehlo.constant dense<1> : tensor<i32>
      %r = call @f0(%z, %a) : (tensor<i32>, tensor<f32>) -> tensor<f32>
      return %r : tensor<f32> }}
    {functions}
    func.func private @f8(%n: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {{ return %x : tensor<f32> }} }}""")
  assert jax.eval_shape(lift(module), _X)
  with pytest.raises(LimitExceededError, match="steps"):
    jax.eval_shape(lift(module, limits=Limits(steps=100, steps_per_node=0)), _X)


@pytest.mark.parametrize("way", [lift, embed])
def test_a_long_cycle_of_functions_is_an_error(way):
  functions = "".join(
    f"""func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> {{
      %r = call @f{(i + 1) % 2000}(%x) : (tensor<f32>) -> tensor<f32>
      return %r : tensor<f32> }}"""
    for i in range(2000)
  )
  module = Module.from_text(f"""module {{ func.func public @main(%a: tensor<f32>) -> tensor<f32> {{
    %r = call @f0(%a) : (tensor<f32>) -> tensor<f32>
    return %r : tensor<f32> }} {functions} }}""")
  with pytest.raises(UnsupportedModuleError, match="calls itself"):
    way(module)


def test_limits_are_checked_themselves():
  with pytest.raises(ValueError, match="depth=-1; expected an integer of at least 0"):
    Limits(depth=-1)
  with pytest.raises(TypeError, match="expected a graftax.xla_call_module.Limits"):
    lift(_chain(1, _ONCE), limits={"depth": 3})


def test_a_call_in_another_thread_has_a_budget_of_its_own():
  calls = "\n".join(f"%{i} = call @f(%{i - 1}) : (tensor<?xf32>) -> tensor<?xf32>" for i in range(1, 9))
  module = Module.from_text(f"""module {{
    func.func public @main(%a: tensor<?xf32>) -> tensor<?xf32> {{
      %0 = stablehlo.custom_call @pause(%a) : (tensor<?xf32>) -> tensor<?xf32>
      {calls}
      return %8 : tensor<?xf32> }}
    func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {{
      %s = stablehlo.sine %x : tensor<?xf32>
      %c = stablehlo.cosine %s : tensor<?xf32>
      return %c : tensor<?xf32> }} }}""")
  shapes = iter([np.zeros(3, np.float32)])

  def pause(op, x):
    for other in shapes:
      with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(jax.eval_shape, lifted, other).result()
    return x

  # One call evaluates 10 ops of `main` and 8 times 2 of `f`.
  lifted = lift(module, custom_calls={"pause": pause}, limits=Limits(steps=27, steps_per_node=0))
  jax.eval_shape(lifted, np.zeros(2, np.float32))
  with pytest.raises(LimitExceededError, match="steps"):
    jax.eval_shape(
      lift(module, custom_calls={"pause": pause}, limits=Limits(steps=20, steps_per_node=0)), np.zeros(2, np.float32)
    )
