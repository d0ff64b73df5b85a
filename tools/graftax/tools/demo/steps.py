"""The steps of the demo.

A digits classifier that was trained in TensorFlow is inspected, converted, run, fine-tuned and differentiated with JAX,
and saved as a SavedModel again.
TensorFlow is not imported at any point; `main` checks that.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console

from graftax import savedmodel_io
from graftax.convert import AnnotatedFunction, split_trainable
from graftax.tools.demo import view
from graftax.tools.examples.digits import Digits, load_digits, model_path
from graftax.tools.inspection.model_report import report_model
from graftax.tools.pytrees import Leaf, PyTree

__all__ = ["DemoResult", "Timed", "gradient_norms", "main", "run_demo"]

_NUM_STEPS = 150
_BATCH_SIZE = 128
_LEARNING_RATE = 3e-3
_SEED = 0


@dataclass(frozen=True, slots=True)
class DemoResult:
  """What the demo measured.

  Attributes:
    accuracy: on the test images.
    largest_difference: between our logits and TensorFlow's, over all test images.
    rotated_accuracy: on the test images turned by a quarter, before and after fine-tuning.
    losses: of each step of fine-tuning.
    gradient_norms: of the loss of each test image, `[m]`.
    saved_difference: the largest difference between the logits of the tuned model and those of the SavedModel that was
      written from it.
    duration_s: of everything.
  """

  accuracy: float
  largest_difference: float
  rotated_accuracy: tuple[float, float]
  losses: np.ndarray
  gradient_norms: np.ndarray
  saved_difference: float
  duration_s: float


@dataclass(frozen=True, slots=True)
class Timed:
  """A result and how long it took."""

  value: Any
  duration_s: float


def main() -> None:
  """Runs the demo and checks what it shows."""
  result = run_demo(view.console())
  imported = sorted(name for name in sys.modules if name.partition(".")[0] == "tensorflow")
  assert not imported, f"internal: TensorFlow was imported: {imported[:5]}"
  assert result.largest_difference < 1e-3, result.largest_difference
  assert result.accuracy > 0.95, result.accuracy
  assert result.rotated_accuracy[1] > result.rotated_accuracy[0] + 0.2, result.rotated_accuracy
  assert result.saved_difference < 1e-3, result.saved_difference


def run_demo(console: Console, *, num_steps: int = _NUM_STEPS, show_times: bool = True) -> DemoResult:
  """Runs the six steps and prints each.

  Args:
    console: where to print.
    num_steps: steps of fine-tuning.
    show_times: whether to print how long each step took.
  """

  def shown(duration_s: float) -> float | None:
    return duration_s if show_times else None

  start = time.perf_counter()
  data = load_digits()
  view.print_title(console)

  model = savedmodel_io.load(model_path())
  view.print_inspection(console, report_model(model))

  converted = _timed(lambda: model.convert("serving_default"))
  predict, params = converted.value
  view.print_conversion(console, predict, params, shown(converted.duration_s))

  ran = _timed(lambda: jax.jit(predict)(params, images=data.test_images)[0]["logits"])
  logits = np.asarray(ran.value)
  accuracy = _accuracy(logits, data.test_labels)
  difference = float(np.abs(logits - data.tensorflow_logits).max())
  view.print_predictions(console, data, logits, accuracy, difference, shown(ran.duration_s))

  tuned = _timed(lambda: _fine_tune(console, predict, params, data, num_steps))
  tuned_params, losses, before, after = tuned.value
  view.print_fine_tuning(console, losses, before, after, shown(tuned.duration_s))

  gradients = _timed(lambda: gradient_norms(predict, params, data.test_images, data.test_labels))
  view.print_gradients(console, data, logits, gradients.value, shown(gradients.duration_s))

  saved_difference = _save_and_compare(console, predict, tuned_params, data, show_times)

  duration_s = time.perf_counter() - start
  result = DemoResult(accuracy, difference, (before, after), losses, gradients.value, saved_difference, duration_s)
  view.print_end(console, shown(result.duration_s))
  return result


def gradient_norms(
  predict: AnnotatedFunction, params: dict[str, PyTree], images: np.ndarray, labels: np.ndarray
) -> np.ndarray:
  """Returns the norm of the gradient of each example's loss in the trainable parameters.

  Args:
    predict: the converted classifier.
    params: its parameters.
    images: `[n, 8, 8, 1]`.
    labels: `[n]`.

  Returns:
    `float32[n]`.
  """
  trainable, fixed = split_trainable(params)

  def norm(image: jax.Array, label: jax.Array) -> jax.Array:
    gradient = jax.grad(_loss, argnums=1)(predict, trainable, fixed, image[None], label[None])
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))

  return np.asarray(jax.jit(jax.vmap(norm))(images, labels))


def _fine_tune(
  console: Console, predict: AnnotatedFunction, params: dict[str, PyTree], data: Digits, num_steps: int
) -> tuple[dict[str, PyTree], np.ndarray, float, float]:
  """Returns parameters and losses, and accuracy on turned test images before and after training on turned images."""
  train_images, test_images = (np.rot90(x, axes=(1, 2)) for x in (data.train_images, data.test_images))
  trainable, fixed = split_trainable(params)
  optimizer = optax.adam(_LEARNING_RATE)

  @jax.jit
  def step(trainable: PyTree, state: PyTree, images: jax.Array, labels: jax.Array) -> tuple[PyTree, PyTree, jax.Array]:
    loss, gradient = jax.value_and_grad(_loss, argnums=1)(predict, trainable, fixed, images, labels)
    updates, state = optimizer.update(gradient, state, trainable)
    return optax.apply_updates(trainable, updates), state, loss

  @jax.jit
  def logits(trainable: PyTree) -> jax.Array:
    return predict(trainable | fixed, images=test_images)[0]["logits"]

  before = _accuracy(logits(trainable), data.test_labels)
  state, losses = optimizer.init(trainable), []
  generator = np.random.default_rng(_SEED)
  for _ in view.track(console, num_steps, "fine-tuning"):
    batch = generator.integers(0, len(train_images), _BATCH_SIZE)
    trainable, state, loss = step(trainable, state, train_images[batch], data.train_labels[batch])
    losses.append(loss)
  return trainable | fixed, np.asarray(losses), before, _accuracy(logits(trainable), data.test_labels)


def _save_and_compare(
  console: Console, predict: AnnotatedFunction, params: dict[str, PyTree], data: Digits, show_times: bool
) -> float:
  """Writes the tuned model as a SavedModel, reads it again, and returns the largest difference of the logits."""

  def logits(params: dict[str, PyTree], images: jax.Array) -> dict[str, jax.Array]:
    return {"logits": predict(params, images=images)[0]["logits"]}

  images = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, 8, 8, 1"), np.float32)
  with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "turned_digits"
    saved = _timed(lambda: savedmodel_io.save(path, (logits, images), params))
    read, read_params = savedmodel_io.load(path).convert("serving_default")
    found = jax.jit(read)(read_params, images=data.test_images)[0]["logits"]
    size_bytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
  difference = float(jnp.abs(found - jax.jit(logits)(params, data.test_images)["logits"]).max())
  view.print_saving(console, size_bytes, difference, saved.duration_s if show_times else None)
  return difference


def _loss(
  predict: AnnotatedFunction,
  trainable: dict[str, PyTree],
  fixed: dict[str, PyTree],
  images: jax.Array,
  labels: jax.Array,
) -> jax.Array:
  """Returns the mean cross-entropy."""
  outputs, _ = predict(trainable | fixed, images=images)
  return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(outputs["logits"]), labels[:, None], axis=1))


def _accuracy(logits: Leaf, labels: np.ndarray) -> float:
  return float(np.mean(np.asarray(logits).argmax(-1) == labels))


def _timed(work: Callable[[], Any]) -> Timed:
  start = time.perf_counter()
  value = jax.block_until_ready(work())
  return Timed(value, time.perf_counter() - start)
