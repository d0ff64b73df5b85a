"""Draws what `make demo` prints as docs/images/demo.svg: `python -m graftax.tools.demo.picture`.

The picture leaves out how long each step took, which depends on the machine. Renew it when the demo prints something
else.
"""

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI

from graftax.tools.demo.steps import run_demo

__all__ = ["demo_picture"]

_WIDTH = 100
_PICTURE = Path(__file__).parents[4] / "docs/images/demo.svg"
# The fonts are the reader's own: a picture in a README must not load any from the network.
_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"


def demo_picture() -> str:
  """Runs the demo and returns its output as an SVG."""
  console = Console(width=_WIDTH, record=True, file=io.StringIO(), highlight=False, color_system="truecolor")
  run_demo(console, show_times=False)
  svg = console.export_svg(title="make demo", theme=DIMMED_MONOKAI, unique_id="demo")
  return _FONT_FACES.sub("", svg).replace("Fira Code, monospace", _FONTS)


def main() -> None:
  """Writes the picture."""
  _PICTURE.parent.mkdir(exist_ok=True)
  _PICTURE.write_text(demo_picture(), encoding="utf-8")


if __name__ == "__main__":
  main()
