import threading

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, PartitionSpec

from graftax.xla_call_module import ArgumentError, LiftError, Module, lift

_X = np.arange(8, dtype=np.float32).reshape(4, 2)
_MESH = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("x", "y"))


def _annotated(dims: str, op: str = "sharding_constraint") -> Module:
  return Module.from_text(f"""module {{
    sdy.mesh @mesh = <["x"=4, "y"=2]>
    func.func public @main(%a: tensor<4x2xf32>) -> tensor<4x2xf32> {{
    %r = sdy.{op} %a <@mesh, [{dims}]> : tensor<4x2xf32>
    return %r : tensor<4x2xf32> }} }}""")


def _spec(function) -> PartitionSpec:
  """What the one sharding constraint of a lifted function says."""
  (call,) = jax.make_jaxpr(function)(_X).eqns
  (equation,) = (eqn for eqn in call.params["jaxpr"].eqns if eqn.primitive.name == "sharding_constraint")
  return equation.params["sharding"].spec


@pytest.mark.parametrize("op", ["sharding_constraint", "reshard"])
@pytest.mark.parametrize(
  "dims, spec",
  [
    ('{"x"}, {"y"}', PartitionSpec("x", "y")),
    ('{}, {"y"}', PartitionSpec(None, "y")),
    ('{"x", "y"}, {}', PartitionSpec(("x", "y"), None)),
    ('{"x", ?}, {?}', PartitionSpec("x", PartitionSpec.UNCONSTRAINED)),
    ('{"x"}p1, {"y"}p0', PartitionSpec("x", "y")),
  ],
)
def test_annotation_becomes_the_partition_spec_that_it_spells(op, dims, spec):
  assert _spec(lift(_annotated(dims, op), mesh=_MESH)) == spec


@pytest.mark.parametrize("text", ["[" + "{}," * 100 + "x", "[" * 100_000, "[{" * 50_000, "[{\\22" * 50_000])
def test_time_for_texts_that_are_no_annotations_is_not_exponential(text):
  module = Module.from_text(f"""module {{ func.func public @main(%a: tensor<4x2xf32>) -> tensor<4x2xf32> {{
    %r = stablehlo.custom_call @xla.sdy.Sharding(%a)
      {{mhlo.frontend_attributes = {{xla.sdy.sharding = "{text}"}}}} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    return %r : tensor<4x2xf32> }} }}""")
  np.testing.assert_array_equal(lift(module)(_X)[0], _X)


def test_annotation_that_names_no_axis_is_left_out_without_a_record():
  lifted = lift(_annotated("{}, {?}"))
  np.testing.assert_array_equal(lifted(_X)[0], _X)
  assert not lifted.records


def test_split_axis_is_dropped_with_a_record_and_rejected_on_a_mesh():
  module = _annotated('{"x":(1)2}, {}')
  lifted = lift(module)
  np.testing.assert_array_equal(lifted(_X)[0], _X)
  assert [record.kind for record in lifted.records] == ["sharding"]
  with pytest.raises(LiftError, match=r"sdy.sharding_constraint at .* splits a mesh axis"):
    lift(module, mesh=_MESH)(_X)


def test_axis_that_the_mesh_lacks_is_an_error_that_names_both():
  with pytest.raises(ArgumentError, match=r"mesh axes \['y'\]; the mesh given has axes \['x'\]"):
    lift(_annotated('{}, {"y"}'), mesh=Mesh(np.array(jax.devices()[:1]), ("x",)))(_X)


_MANUAL = """module {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %s = "stablehlo.all_reduce"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %t = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %r = sdy.manual_computation(%s) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
    manual_axes={"x"} (%b: tensor<1x2xf32>) {
    %c = stablehlo.custom_call @pause(%b) : (tensor<1x2xf32>) -> tensor<1x2xf32>
    sdy.return %c : tensor<1x2xf32>
  } : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %r : tensor<4x2xf32> } }"""


def test_thread_that_traces_outside_of_a_shard_map_is_not_taken_to_be_in_that_of_another():
  outcomes: list[object] = []

  def trace():
    try:
      outcomes.append(jax.eval_shape(lambda x: lifted._run(x), _X)[0].shape)
    except LiftError as error:
      outcomes.append(error)

  def pause(op, x):
    if threading.current_thread() is threading.main_thread():
      other = threading.Thread(target=trace)
      other.start()
      other.join(timeout=60)
    return x

  mesh = AbstractMesh((4,), ("x",), axis_types=(AxisType.Auto,))
  lifted = lift(Module.from_text(_MANUAL), mesh=mesh, custom_calls={"pause": pause})
  trace()
  assert outcomes == [(4, 2), (4, 2)]


_TWO_BY_TWO = AbstractMesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Auto))
_GSPMD = """module {{ func.func public @main(%a: tensor<4x2xf32>) -> tensor<4x2xf32> {{
  %0 = stablehlo.custom_call @Sharding(%a) {{mhlo.sharding = "{0}"}} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {{mhlo.sharding = "{{manual}}"}}
    : (tensor<4x2xf32>) -> tensor<2x1xf32>
  %2 = call @body(%1) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %3 = stablehlo.custom_call @SPMDShardToFullShape(%2) {{mhlo.sharding = "{0}"}} : (tensor<2x1xf32>) -> tensor<4x2xf32>
  return %3 : tensor<4x2xf32> }}
  func.func private @body(%a: tensor<2x1xf32>) -> tensor<2x1xf32> {{ return %a : tensor<2x1xf32> }} }}"""


@pytest.mark.parametrize("sharding", ["{devices=[2,2]<=[4]}", "{devices=[2,2]0,1,2,3}"])
def test_tiles_of_devices_in_order_are_axes_of_the_mesh(sharding):
  lifted = lift(Module.from_text(_GSPMD.format(sharding)), mesh=_TWO_BY_TWO)
  (mapped,) = (eqn for eqn in jax.make_jaxpr(lifted._run)(_X).eqns if eqn.primitive.name == "shard_map")
  assert mapped.params["in_specs"] == mapped.params["out_specs"] == (PartitionSpec("x", "y"),)


@pytest.mark.parametrize(
  "ops",
  [
    ["%1 = to_shards(%a) : (FULL) -> PART", "%2 = call @body(%1) : (PART) -> PART", "%3 = to_full(%2) : (PART) -> FULL",
     "stablehlo.custom_call @keep(%1) {has_side_effect = true} : (PART) -> ()"],
    ["%1 = to_shards(%a) : (FULL) -> PART", "%2 = call @body(%1) : (PART) -> PART", "%3 = to_full(%2) : (PART) -> FULL",
     "stablehlo.custom_call @keep(%2) {has_side_effect = true} : (PART) -> ()"],
    ["%1 = to_shards() : () -> PART", "%2 = call @body(%1) : (PART) -> PART", "%3 = to_full(%2) : (PART) -> FULL"],
    ["%1 = to_shards(%a) : (FULL) -> PART", "%2 = call @body(%1) : (PART) -> PART", "to_full(%2) : (PART) -> ()",
     "%3 = stablehlo.tanh %a : FULL"],
  ],
)  # fmt: skip
def test_changes_of_shape_in_another_place_are_no_shard_map(ops):
  text = "\n".join(["module { func.func public @main(%a: FULL) -> FULL {", *ops, "return %3 : FULL }"])
  text += "func.func private @body(%a: PART) -> PART { return %a : PART } }"
  for short, full in {
    "to_shards": "stablehlo.custom_call @SPMDFullToShardShape",
    "to_full": "stablehlo.custom_call @SPMDShardToFullShape",
    "FULL": "tensor<4x2xf32>",
    "PART": "tensor<2x1xf32>",
  }.items():
    text = text.replace(short, full)
  with pytest.raises(LiftError, match="needs the manual mesh|operands, attributes or regions do not fit it"):
    jax.eval_shape(lift(Module.from_text(text), mesh=_TWO_BY_TWO)._run, _X)


@pytest.mark.parametrize(
  "sharding",
  [
    "{devices=[2,2]0,2,1,3}",
    "{devices=[2,2]<=[2,2]T(1,0)}",
    "{devices=[2,2]0,1}",
    "{devices=[1,2,2]<=[4] last_tile_dims={manual}}",
  ],
)
def test_tiles_of_other_devices_are_refused_and_as_a_constraint_dropped(sharding):
  text = _GSPMD.format(sharding)
  with pytest.raises(LiftError, match=r"sharding \{devices=.*\} does not map to axes of the mesh"):
    jax.eval_shape(lift(Module.from_text(text), mesh=_TWO_BY_TWO)._run, _X)
  start = text.index("  %1 =")
  alone = lift(
    Module.from_text(text[:start] + "return %0 : tensor<4x2xf32>" + text[text.rindex(" }\n  func") :]),
    mesh=_TWO_BY_TWO,
  )
  assert "sharding_constraint" not in str(jax.make_jaxpr(alone._run)(_X))
  assert [record.note for record in alone.records] == [f"dropped {sharding}: it does not map to axes of the mesh"]
