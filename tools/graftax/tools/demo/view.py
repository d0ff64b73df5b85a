"""Prints the results of the demo."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from rich import box, filesize
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.progress import track as rich_track
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from graftax.convert import AnnotatedFunction
from graftax.tools.examples.digits import Digits
from graftax.tools.inspection.model_report import ModelReport
from graftax.tools.inspection.model_view import ops_summary, parameters_summary, signature_table
from graftax.tools.pytrees import PyTree

__all__ = [
  "console",
  "print_conversion",
  "print_end",
  "print_fine_tuning",
  "print_gradients",
  "print_inspection",
  "print_predictions",
  "print_saving",
  "print_title",
  "track",
]

_WIDTH = 100
_NUM_SHOWN = 7
_INK = 0.4
_HALF_BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
_BARS = "▁▂▃▄▅▆▇█"
_NUM_BARS = 40
_CODE_THEME = "ansi_dark"


def console() -> Console:
  """Returns the console on standard output, as wide as the demo's tables."""
  return Console(width=_WIDTH, highlight=False)


def track(console: Console, num_steps: int, description: str) -> Iterable[int]:
  """Counts to `num_steps` with a progress bar, if the output is a terminal."""
  return rich_track(range(num_steps), description, console=console, transient=True, disable=not console.is_terminal)


def print_title(console: Console) -> None:
  console.print(
    Panel(
      "A digits classifier, trained in TensorFlow and saved as a SavedModel, becomes a JAX function,\n"
      "is trained on, and becomes a SavedModel again. TensorFlow is not imported.",
      title="graftax",
      title_align="left",
      border_style="cyan",
    )
  )


def print_inspection(console: Console, report: ModelReport) -> None:
  _print_heading(console, 1, "What is in it", 'model = savedmodel_io.load("examples/digits/model")')
  console.print(signature_table([s for s in report.signatures if s.name == "serving_default"]))
  facts = f"Parameters {parameters_summary(report.parameters)}; {ops_summary(report.ops)}."
  console.print(f"{facts} Written by TensorFlow {report.tensorflow_version}.", markup=False)


def print_conversion(
  console: Console, predict: AnnotatedFunction, params: Mapping[str, PyTree], duration_s: float | None
) -> None:
  _print_heading(console, 2, "Convert it", 'predict, params = model.convert("serving_default")')
  size = filesize.decimal(sum(value.nbytes for value in params.values()))
  console.print(
    f"An ordinary JAX function and a dict of {len(params)} arrays ({size}, memory-mapped){_in(duration_s, ',')}.",
    markup=False,
  )
  console.print(Text(repr(predict), "dim"))


def print_predictions(
  console: Console, data: Digits, logits: np.ndarray, accuracy: float, difference: float, duration_s: float | None
) -> None:
  _print_heading(console, 3, "Run it", "outputs, _ = jax.jit(predict)(params, images=test_images)")
  labels = logits.argmax(-1)
  console.print(
    Columns(
      [_picture(data.test_images[i], f"predicted {labels[i]}", "green") for i in range(_NUM_SHOWN)], padding=(0, 2)
    )
  )
  table = _facts()
  table.add_row("test images", f"{len(labels)}, compiled and run{_in(duration_s)}")
  table.add_row("accuracy", f"{accuracy:.1%}, TensorFlow {_tensorflow_accuracy(data):.1%}")
  table.add_row(
    "largest difference to TensorFlow's logits", f"{difference:.1e}, of logits up to {np.abs(logits).max():.0f}"
  )
  console.print(table)


def print_fine_tuning(
  console: Console, losses: np.ndarray, before: float, after: float, duration_s: float | None
) -> None:
  code = (
    "loss, gradient = jax.value_and_grad(loss_fn)(params, turned_images, labels)\n"
    "updates, state = adam.update(gradient, state)"
  )
  _print_heading(console, 4, "Train it on: digits turned by a quarter, with optax", code)
  table = _facts()
  table.add_row("loss", Text.assemble((_sparkline(losses), "cyan"), f"  {losses[0]:.2f} to {losses[-1]:.2f}"))
  table.add_row("steps", f"{len(losses)} of Adam{_compiled_in(duration_s)}")
  table.add_row(
    "accuracy on turned digits", Text.assemble(f"{before:.1%} before, ", (f"{after:.1%} after", "bold green"))
  )
  console.print(table)


def print_gradients(
  console: Console, data: Digits, logits: np.ndarray, norms: np.ndarray, duration_s: float | None
) -> None:
  code = "norms = jax.vmap(lambda image, label: norm(jax.grad(loss_fn)(params, image, label)))(images, labels)"
  _print_heading(console, 5, "One gradient per example: vmap of grad", code)
  console.print(
    f"{len(norms)} gradients of all parameters{_compiled_in(duration_s)}. The test images with the largest gradients:",
    markup=False,
  )
  hardest = np.argsort(norms)[::-1][:_NUM_SHOWN]
  console.print(Columns([_hard_picture(data, logits, norms, i) for i in hardest], padding=(0, 2)))


def print_saving(console: Console, size_bytes: int, difference: float, duration_s: float | None) -> None:
  spec = 'ShapeDtypeStruct(symbolic_shape("batch, 8, 8, 1"), np.float32)'
  code = f'savedmodel_io.save("turned_digits", (logits, {spec}), params)'
  _print_heading(console, 6, "Save it as a SavedModel, which TensorFlow serves and trains on", code)
  table = _facts()
  table.add_row("written", f"{filesize.decimal(size_bytes)}{_in(duration_s)}, with the gradients of two orders")
  table.add_row("read again, largest difference of logits", f"{difference:.1e}")
  console.print(table)


def print_end(console: Console, duration_s: float | None) -> None:
  console.print(
    Panel(
      f"All of that{_in(duration_s)}, without TensorFlow in the process. With a model of yours:\n\n"
      "  graftax inspect PATH            what is in it, and whether it converts\n"
      "  graftax run PATH -i x=x.npy     run it\n"
      "  graftax convert PATH -o DIR     a program that plain JAX loads\n"
      "  graftax export FILE.py:FUNCTION -o DIR   a SavedModel of a JAX function",
      border_style="cyan",
    ),
    markup=False,
  )


def _in(duration_s: float | None, before: str = "") -> str:
  """Returns the end of a phrase with a duration; nothing without one."""
  return "" if duration_s is None else f"{before} in {_ms(duration_s)}"


def _compiled_in(duration_s: float | None) -> str:
  return "" if duration_s is None else f"{_in(duration_s)}, compilation included"


def _print_heading(console: Console, number: int, title: str, code: str) -> None:
  console.print()
  console.print(Text(f"{number}. {title}", "bold cyan"))
  console.print(Syntax(code, "python", theme=_CODE_THEME, background_color="default", word_wrap=True))
  console.print()


def _hard_picture(data: Digits, logits: np.ndarray, norms: np.ndarray, index: int) -> Text:
  predicted, label = logits[index].argmax(), data.test_labels[index]
  caption = f"norm {norms[index]:.1f}\n{label} seen as {predicted}"
  return _picture(data.test_images[index], caption, "green" if predicted == label else "red")


def _picture(image: np.ndarray, caption: str, style: str) -> Text:
  """Returns an 8 by 8 image in half blocks, two rows of pixels to a line, so that it shows without colors too."""
  ink = image[..., 0] > _INK
  lines = [
    "".join(_HALF_BLOCKS[a, b] for a, b in zip(*rows, strict=True)) for rows in zip(ink[::2], ink[1::2], strict=True)
  ]
  return Text.assemble("\n".join(lines), "\n", (caption, style))


def _sparkline(values: Sequence[float] | np.ndarray) -> str:
  parts = np.array_split(np.asarray(values), min(_NUM_BARS, len(values)))
  means = np.array([part.mean() for part in parts])
  heights = (means - means.min()) / max(float(np.ptp(means)), 1e-9) * (len(_BARS) - 1)
  return "".join(_BARS[round(float(height))] for height in heights)


def _tensorflow_accuracy(data: Digits) -> float:
  return float(np.mean(data.tensorflow_logits.argmax(-1) == data.test_labels))


def _facts() -> Table:
  table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
  table.add_column(style="dim")
  table.add_column()
  return table


def _ms(duration_s: float) -> str:
  return f"{duration_s * 1000:.0f} ms" if duration_s < 1 else f"{duration_s:.1f} s"
