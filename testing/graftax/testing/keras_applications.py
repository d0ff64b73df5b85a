"""Compares every model of `keras.applications` with TensorFlow, after an export by Keras.

Two processes share the work: `export_model` needs TensorFlow; `check_export` loads and runs the model in a child
process in which importing TensorFlow fails.

    python -m graftax.testing.keras_applications MobileNetV2 ResNet50      # some models
    python -m graftax.testing.keras_applications                          # all models
"""

import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graftax.testing._tensorflow import TfFunction
from graftax.testing.pytrees import Leaf, PyTree

__all__ = ["APPLICATIONS", "HEAVY", "Application", "CheckedModel", "Checker", "check_export", "checker", "export_model"]


@dataclasses.dataclass(frozen=True, slots=True)
class Application:
  """One constructor of `keras.applications`.

  Attributes:
    name: the constructor's name.
    image_size: height and width of the input in pixels, close to the smallest that the model accepts.
    gradient: whether to compare derivatives with respect to the input and to all trainable parameters.
    scale: factor on the random scales of batch normalization. With random statistics, the activations of the deepest
      models grow until rounding errors dominate: at scale 1, TensorFlow in float32 differs from float64 by 70 %.
  """

  name: str
  image_size: int = 64
  gradient: bool = False
  scale: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedModel:
  """Differences between a converted model and TensorFlow, and the times to load and compile it.

  Attributes:
    output_error: largest difference of outputs, relative to the largest output.
    gradient_error: largest difference of derivatives over the input and all parameters, each relative to its largest
      element; None if not compared.
    load_s: time to load and convert in seconds.
    compile_s: time to trace, compile and run once in seconds.
  """

  output_error: float
  gradient_error: float | None
  load_s: float
  compile_s: float


_IMAGE_SIZES = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}
_WITH_GRADIENT = "MobileNet MobileNetV2 EfficientNetB0 ResNet50".split()
_SCALES = {"EfficientNetV2M": 0.87, "EfficientNetV2L": 0.87}
APPLICATIONS: tuple[Application, ...] = tuple(
  Application(name, _IMAGE_SIZES.get(name, 64), name in _WITH_GRADIENT, _SCALES.get(name, 1.0))
  for name in (
    "MobileNet MobileNetV2 MobileNetV3Small MobileNetV3Large EfficientNetB0 EfficientNetB1 EfficientNetB2 "
    "EfficientNetB3 EfficientNetB4 EfficientNetB5 EfficientNetB6 EfficientNetB7 EfficientNetV2B0 "
    "EfficientNetV2B1 EfficientNetV2B2 EfficientNetV2B3 EfficientNetV2S EfficientNetV2M EfficientNetV2L ResNet50 "
    "ResNet101 ResNet152 ResNet50V2 ResNet101V2 ResNet152V2 DenseNet121 DenseNet169 DenseNet201 InceptionV3 "
    "InceptionResNetV2 Xception NASNetMobile NASNetLarge VGG16 VGG19 ConvNeXtTiny ConvNeXtSmall ConvNeXtBase "
    "ConvNeXtLarge ConvNeXtXLarge"
  ).split()
)

HEAVY = frozenset({
  "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtSmall", "ConvNeXtXLarge", "DenseNet169", "DenseNet201", "EfficientNetB1",
  "EfficientNetB2", "EfficientNetB3", "EfficientNetB4", "EfficientNetB5", "EfficientNetB6", "EfficientNetB7",
  "EfficientNetV2B0", "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3", "EfficientNetV2L", "EfficientNetV2M",
  "EfficientNetV2S", "InceptionResNetV2", "MobileNetV3Large", "NASNetLarge", "NASNetMobile", "ResNet101", "ResNet101V2",
  "ResNet152", "ResNet152V2", "ResNet50V2", "VGG19",
})  # fmt: skip
"""Larger siblings of models that are tested anyway: the same ops, minutes more."""

_BATCH_SIZE = 2


def export_model(application: Application, folder: Path) -> None:
  """Writes `model/` (a SavedModel) and `expected.npz` (input, output, derivatives by TensorFlow) into `folder`."""
  from graftax.graphdef_ir import optional_library
  from graftax.testing._tensorflow import import_tensorflow

  tf = import_tensorflow()
  with optional_library("export_model", "graftax-testing[keras]"):
    import keras
  keras.utils.set_random_seed(0)
  model = getattr(keras.applications, application.name)(
    weights=None,
    input_shape=(application.image_size, application.image_size, 3),
    classes=10,
    classifier_activation=None,
  )
  _randomize(model, application.scale)
  model.export(str(folder / "model"), verbose=False)
  # Draw pixels from 0 to 255. Some models rescale them to -1 to 1 themselves; numbers from 0 to 1 would become almost
  # constant there, and rounding errors of both sides would dominate.
  images = np.random.default_rng(1).uniform(0, 255, (_BATCH_SIZE, *model.input_shape[1:])).astype(np.float32)
  expected: dict[str, Leaf] = {"images": images}
  restored = tf.saved_model.load(str(folder / "model"))
  with tf.GradientTape() as tape:
    batch = tf.constant(images)
    tape.watch(batch)
    outputs = restored.serve(batch)
    loss = tf.reduce_sum(outputs * _loss_weights(outputs.shape))
  expected["outputs"] = outputs.numpy()
  if application.gradient:
    trainable = [variable for variable in restored.variables if variable.trainable]
    input_gradient, *gradients = tape.gradient(loss, [batch, *trainable])
    expected["gradient"] = input_gradient.numpy()
    expected |= {f"gradient/{v.name.removesuffix(':0')}": g.numpy() for v, g in zip(trainable, gradients, strict=True)}
  np.savez(folder / "expected.npz", **expected)
  keras.backend.clear_session()


def _randomize(model: TfFunction, scale: float) -> None:
  """Sets random statistics and scales, so that batch normalization is not the identity and outputs differ."""
  rng = np.random.default_rng(0)
  for variable in model.variables:
    leaf = variable.path.rpartition("/")[2]
    if leaf in ("moving_mean", "bias", "beta"):
      variable.assign(rng.normal(0, 0.05, variable.shape))
    elif leaf in ("moving_variance", "gamma"):
      factor = scale if leaf == "gamma" else 1.0
      variable.assign(factor * rng.uniform(0.8, 1.2, variable.shape))


def _loss_weights(shape: Any) -> np.ndarray:
  return np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(tuple(shape))


class Checker:
  """A child process without TensorFlow that loads, converts and compares one export after another."""

  def __init__(self) -> None:
    context = multiprocessing.get_context("spawn")
    self._pool = concurrent.futures.ProcessPoolExecutor(1, context, initializer=_leave_out_tensorflow)

  def check(self, folder: Path) -> CheckedModel:
    """Compares one export with TensorFlow's results.

    Raises:
      RuntimeError: loading, converting or running failed; the message is the child's.
    """
    try:
      return self._pool.submit(check_export, folder).result()
    except Exception as e:
      raise RuntimeError(f"{folder}: {type(e).__name__}: {e}") from e

  def close(self) -> None:
    """Stops the child process."""
    self._pool.shutdown()


@contextlib.contextmanager
def checker() -> Iterator[Checker]:
  """Yields a `Checker` and closes it afterwards."""
  with contextlib.closing(Checker()) as child:
    yield child


def _leave_out_tensorflow() -> None:
  """Makes importing TensorFlow fail in this process, which runs on the CPU."""
  import jax

  sys.modules["tensorflow"] = None  # type: ignore[assignment]
  jax.config.update("jax_platforms", "cpu")


def check_export(folder: Path) -> CheckedModel:
  """Loads and converts one export in this process, and compares it with TensorFlow's results."""
  import jax
  import jax.numpy as jnp

  import graftax.savedmodel_io as savedmodel_io

  expected = np.load(folder / "expected.npz")
  start = time.perf_counter()
  fn, params = savedmodel_io.load(folder / "model").convert()
  (input_name,) = fn.structured_inputs[1]
  load_s = time.perf_counter() - start

  def run(params: PyTree, images: Leaf) -> PyTree:
    (outputs,) = fn(params, **{input_name: images})[0].values()
    return outputs

  start = time.perf_counter()
  outputs = np.asarray(jax.jit(run)(params, expected["images"]))
  compile_s = time.perf_counter() - start
  gradient_error = None
  if "gradient" in expected:

    def loss(params: PyTree, images: Leaf) -> PyTree:
      outputs = run(params, images)
      return jnp.sum(outputs * _loss_weights(outputs.shape))

    by_params, by_images = jax.jit(jax.grad(loss, argnums=(0, 1)))(params, expected["images"])
    gradient_error = max(
      [_relative_error(by_images, expected["gradient"])]
      + [_relative_error(by_params[key[9:]], expected[key]) for key in expected.files if key.startswith("gradient/")]
    )
  return CheckedModel(_relative_error(outputs, expected["outputs"]), gradient_error, load_s, compile_s)


def _relative_error(got: Leaf, expected: np.ndarray) -> float:
  return float(np.max(np.abs(np.asarray(got) - expected)) / np.max(np.abs(expected)))


def _main(names: list[str]) -> None:
  chosen = [application for application in APPLICATIONS if not names or application.name in names]
  with checker() as child:
    for application in chosen:
      with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        export_model(application, Path(folder))
        export_s = time.perf_counter() - start
        try:
          print(application.name, f"export_s={export_s:.1f}", child.check(Path(folder)), flush=True)
        except RuntimeError as e:
          print(application.name, "FAILED", e, flush=True)


if __name__ == "__main__":
  _main(sys.argv[1:])
