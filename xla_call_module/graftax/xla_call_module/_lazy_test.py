import subprocess
import sys

import pytest

import graftax.xla_call_module
from graftax.xla_call_module import lax_extras


@pytest.mark.parametrize("package", [graftax.xla_call_module, lax_extras])
def test_every_public_name_is_found_and_listed(package):
  for name in package.__all__:
    assert getattr(package, name) is getattr(package, name)
    assert name in dir(package)


@pytest.mark.parametrize("package", [graftax.xla_call_module, lax_extras])
def test_other_names_are_attribute_errors(package):
  with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"):
    _ = package.nothing


def test_symbolic_dimensions_are_imported_without_mlir():
  script = (
    "import sys; from graftax.xla_call_module.lax_extras import stack_dims; "
    "print(*[name for name in sys.modules if name.startswith('graftax.xla_call_module.') and 'lax_extras' not in name])"
  )
  found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
  modules = sorted(name.removeprefix("graftax.xla_call_module.") for name in found.stdout.split())
  assert modules == ["_error_root", "_lazy", "errors", "jax_versions"]


def test_an_override_registered_first_is_kept():
  script = """
from graftax.xla_call_module import register
@register("stablehlo.sine", override=True)
def sine(context, op, x):
  return x + 1
from graftax.xla_call_module import Module, lift
text = "func.func @main(%a: tensor<f32>) -> tensor<f32> {"
text += "%0 = stablehlo.sine %a : tensor<f32>\\nreturn %0 : tensor<f32>}"
print(lift(Module.from_text(text))(1.0)[0])
"""
  found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
  assert found.stdout.strip() == "2.0"
