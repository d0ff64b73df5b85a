import numpy as np
import pytest

from graftax.xla_call_module import Module, UnsupportedOpError, embed, lift

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
  with pytest.raises(UnsupportedOpError, match=r"stablehlo.all_gather at .*in groups \[\[0, 1\]\]"):
    lift(_gathered("[[0, 1]]", 2))(_X)


_ID = """module {{ func.func public @main() -> tensor<ui32> {{
  %r = stablehlo.{} : tensor<ui32>
  return %r : tensor<ui32> }} }}"""


@pytest.mark.parametrize("kind", ["replica", "partition"])
def test_the_only_device_is_number_0_and_of_several_none_is_known(kind):
  text = _ID.format(f"{kind}_id")
  assert int(lift(Module.from_text(text))()[0]) == 0
  several = text.replace("module {", f"module attributes {{mhlo.num_{kind}s = 2 : i32}} {{", 1)
  with pytest.raises(UnsupportedOpError, match=f"runs on several {kind}s"):
    lift(Module.from_text(several))()
