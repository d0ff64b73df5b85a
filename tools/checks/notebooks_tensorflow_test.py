"""The notebook that needs TensorFlow runs, and prints and draws what it holds."""

import pytest
import tensorflow as tf  # noqa: F401  # this file runs in the ring with TensorFlow
from notebooks import imports_tensorflow, notebooks, outputs_of, read, run


@pytest.mark.slow  # 15 s
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of TensorFlow's converter
@pytest.mark.parametrize("path", [p for p in notebooks() if imports_tensorflow(p)], ids=lambda path: path.stem)
def test_notebooks_print_and_draw_what_they_hold(path):
  cells = read(path)
  assert outputs_of(run(cells)) == outputs_of(cells)
