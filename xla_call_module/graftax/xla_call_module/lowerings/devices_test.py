import numpy as np
import pytest

from graftax.xla_call_module import LiftError, Module, embed, ir, lift
from graftax.xla_call_module.lowerings import devices

_X = np.arange(4, dtype=np.float32)


def _gathered(groups: str, num: int) -> Module:
  return Module.from_text(f"""module {{ func.func public @main(%x: tensor<4xf32>) -> tensor<{4 * num}xf32> {{
    %r = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64,
      replica_groups = dense<{groups}> : tensor<1x{num}xi64>}}> : (tensor<4xf32>) -> tensor<{4 * num}xf32>
    return %r : tensor<{4 * num}xf32> }} }}""")


def test_a_group_of_one_device_keeps_its_data():
  module = _gathered("[[0]]", 1)
  np.testing.assert_array_equal(lift(module)(_X)[0], embed(module)(_X)[0])


def test_a_group_of_several_devices_raises_with_its_name():
  with pytest.raises(LiftError, match=r"stablehlo.all_gather at .*in groups \[\[0, 1\]\]"):
    lift(_gathered("[[0, 1]]", 2))(_X)


_ID = """module {{ func.func public @main() -> tensor<ui32> {{
  %r = stablehlo.{} : tensor<ui32>
  return %r : tensor<ui32> }} }}"""


@pytest.mark.parametrize("kind", ["replica", "partition"])
def test_the_only_device_is_number_0_and_of_several_none_is_known(kind):
  text = _ID.format(f"{kind}_id")
  assert int(lift(Module.from_text(text))()[0]) == 0
  several = text.replace("module {", f"module attributes {{mhlo.num_{kind}s = 2 : i32}} {{", 1)
  with pytest.raises(LiftError, match=f"runs on several {kind}s"):
    lift(Module.from_text(several))()


@pytest.mark.parametrize(
  ("groups", "axes"),
  [
    ([[0, 1], [2, 3]], ("y",)),
    ([[3, 1], [0, 2]], ("x",)),
    ([[0, 1, 2, 3]], ("x", "y")),
    ([[0, 3], [1, 2]], None),
    ([[0], [1], [2], [3]], None),
    (np.zeros((0, 0), np.int64), None),
    ((), None),
    ({"mesh": "@m", "axes": ({"name": '"y"'},)}, ("y",)),
    ({"mesh": "@m", "axes": ({"name": '"z"'},)}, None),
    ({"mesh": "@m", "axes": ({"name": '"y"', "sub_axis_info": (1, 2)},)}, None),
  ],
)
def test_groups_of_a_collective_are_axes_of_the_mesh(groups, axes):
  op = ir.Op("stablehlo.all_reduce", (), (), (), ir.Attributes(replica_groups=groups), (), "")
  assert devices._group_axes(op, (("x", 2), ("y", 2))) == axes
