"""The notebooks run, and print and draw what they hold. The one that needs TensorFlow is elsewhere."""

import os

import pytest
from cleanroom import ROOT
from notebooks import imports_tensorflow, notebooks, outputs_of, read, run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of the libraries


@pytest.mark.slow  # 30 s together
@pytest.mark.parametrize("path", [p for p in notebooks() if not imports_tensorflow(p)], ids=lambda path: path.stem)
def test_notebooks_print_and_draw_what_they_hold(path):
  cells = read(path)
  assert outputs_of(run(cells)) == outputs_of(cells)


def test_outputs_are_text_tables_and_pictures():
  code = ["print('a')\n", "import matplotlib.pyplot as plt\n", "plt.figure()\n", "1 + 1"]
  (ran,) = run([{"cell_type": "code", "source": code, "outputs": []}])
  assert outputs_of([ran]) == [
    [("printed", "a\n"), ("text/plain", "2"), ("image/png", ""), ("text/plain", "a picture")]
  ]


def test_notebooks_have_their_outputs_and_pictures():
  assert len(notebooks()) == 4
  for path in notebooks():
    kinds = [kind for outputs in outputs_of(read(path)) for kind, _ in outputs]
    assert kinds.count("image/png") >= 1 and "printed" in kinds, path
    assert (ROOT / path).stat().st_size < 150_000
    assert os.fspath(ROOT) not in (ROOT / path).read_text(encoding="utf-8")
