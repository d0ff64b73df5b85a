"""Runs the notebooks of docs/notebooks without Jupyter, and compares or renews what they print.

    .venv/bin/python tools/checks/notebooks.py docs/notebooks/*.ipynb    # renews outputs and pictures in these files

What a cell prints, and the value of its last line, are compared. A picture that Matplotlib draws only has to be there,
because its bytes depend on fonts.
"""

import ast
import base64
import contextlib
import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["Cell", "imports_tensorflow", "notebooks", "outputs_of", "read", "run"]

ROOT = Path(__file__).resolve().parents[2]
_PICTURE = "image/png"

# A cell, or an output of one, as JSON holds it.
Cell = dict[str, object]


def notebooks() -> list[Path]:
  """Returns the notebooks, as paths from the root of the tree."""
  return sorted(path.relative_to(ROOT) for path in (ROOT / "docs/notebooks").glob("*.ipynb"))


def read(path: Path) -> list[Cell]:
  """Returns the cells of a notebook."""
  return json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]


def imports_tensorflow(path: Path) -> bool:
  """Returns whether a cell of a notebook imports TensorFlow."""
  return any("import tensorflow" in _source(cell) for cell in read(path) if cell["cell_type"] == "code")


def outputs_of(cells: list[Cell]) -> list[list[tuple[str, str]]]:
  """Returns the kind and the text of each output of each cell of code; the text of a picture is empty."""
  return [list(_shown(cell["outputs"])) for cell in cells if cell["cell_type"] == "code"]


def _shown(outputs: object) -> Iterator[tuple[str, str]]:
  assert isinstance(outputs, list)
  for output in outputs:
    if output["output_type"] == "stream":
      yield "printed", "".join(output["text"])
    for kind, text in output.get("data", {}).items():
      yield kind, "" if kind == _PICTURE else "".join(text)


def run(cells: list[Cell]) -> list[Cell]:
  """Returns the cells of a notebook with what they print, return and draw now."""
  import matplotlib as mpl

  mpl.use("agg")
  namespace: dict[str, object] = {"__name__": "__main__"}
  done, number = [], 0
  for cell in cells:
    if cell["cell_type"] == "code":
      number += 1
      outputs = list(_outputs(_source(cell), f"cell {number}", namespace, number))
      cell = {**cell, "execution_count": number, "outputs": outputs}
    done.append(cell)
  return done


def _source(cell: Cell) -> str:
  source = cell["source"]
  assert isinstance(source, list)
  return "".join(source)


def _outputs(source: str, name: str, namespace: dict[str, object], number: int) -> Iterator[Cell]:
  """Runs the code of a cell and yields its outputs."""
  body = ast.parse(source, name).body
  last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
  printed, value = io.StringIO(), None
  with contextlib.redirect_stdout(printed):
    exec(compile(ast.Module(body, []), name, "exec"), namespace)
    if isinstance(last, ast.Expr):
      value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
  if printed.getvalue():
    yield {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
  if value is not None:
    html = getattr(value, "_repr_html_", None)
    # Tables of models have their paths, and those of this machine do not belong into the tree.
    shown = ("text/html", html()) if html else ("text/plain", repr(value))
    data = {shown[0]: _lines(shown[1].replace(f"{ROOT}/", ""))}
    yield {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
  yield from map(_picture, _figures())


def _figures() -> Iterator[bytes]:
  """Yields the figures that are open as PNG, and closes them."""
  import matplotlib.pyplot as plt

  for number in plt.get_fignums():
    data = io.BytesIO()
    plt.figure(number).savefig(data, format="png", dpi=80, bbox_inches="tight", metadata={"Software": None})
    plt.close(number)
    yield data.getvalue()


def _picture(png: bytes) -> Cell:
  data: Mapping[str, object] = {_PICTURE: base64.b64encode(png).decode(), "text/plain": ["a picture"]}
  return {"output_type": "display_data", "metadata": {}, "data": data}


def _lines(text: str) -> list[str]:
  return text.splitlines(keepends=True)


def main() -> None:
  for argument in sys.argv[1:]:
    path = Path(argument).resolve()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["cells"] = run(notebook["cells"])
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{argument}: {len(notebook['cells'])} cells")


if __name__ == "__main__":
  main()
