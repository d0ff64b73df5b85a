"""What each framework runs for a network.

Workers read this module in other environments, so it imports a framework only where it runs. A contestant takes the
folder of a network, its inputs as arrays of NumPy, and whether a step of training is measured. It returns a function
without arguments that runs the network once and returns its first output when all are computed.
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["CONTESTANTS"]

# Workers have other environments, without this package.
Array: TypeAlias = Any
"""An array or a tensor of any framework."""
PyTree: TypeAlias = Any
"""Nested containers of arrays, such as parameters."""

_Run = Callable[[], Array]
_Contestant = Callable[[Path, Sequence[Array], bool], _Run]
_RATE = 1e-3
_NUM_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_jax(contestant: _Contestant) -> _Contestant:
  """Returns a contestant whose programs run in the thread that calls them and in threads with a core each.

  As those of ONNX Runtime and OpenVINO do by default. Freed memory is kept in one arena for all threads: the arenas of
  threads hold no block of 64 MiB, so that outputs of that size would be new pages in each call.
  """

  @functools.wraps(contestant)
  def set_up(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
    import jax

    from graftax.convert import bind_threads_to_cores, keep_freed_memory

    # Before JAX has a client for CPUs, which reads it once.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    keep_freed_memory()
    bind_threads_to_cores()
    return contestant(folder, inputs, train)

  return set_up


@_in_jax
def _graftax(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  from graftax import savedmodel_io

  return _converted_by_graftax(*savedmodel_io.load(folder / "saved_model").convert("serve"), inputs, train)


@_in_jax
def _graftax_frozen(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  _only_inference(train)
  import jax

  from graftax import savedmodel_io
  from graftax.convert import jit_for_inference

  predict = jit_for_inference(*savedmodel_io.load(folder / "saved_model").convert("serve"))
  on_device = jax.device_put(_named(inputs))
  return lambda: jax.block_until_ready(predict(**on_device))["y0"]


def _converted_by_graftax(fn: Any, params: PyTree, inputs: Sequence[Array], train: bool) -> _Run:
  from graftax.convert import compiler_options

  return _run_in_jax(
    lambda params, *x: fn(params, **_named(x))[0],
    params, inputs, train, lambda traced: compiler_options(program=traced.jaxpr),
  )  # fmt: skip


@_in_jax
def _tf2jax(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  import tensorflow as tf
  import tf2jax

  model = tf.saved_model.load(str(folder / "saved_model"))
  # TF2JAX 0.3.8 does not take TensorFlow 2.21's signatures; this is its way without a second trace.
  fn, params = tf2jax.convert_from_restored(model.serve)

  def call(params: PyTree, *x: Array) -> PyTree:
    return fn(params, **{f"inputs_{i}": value for i, value in enumerate(x)})[0]

  return _run_in_jax(call, params, inputs, train)


@_in_jax
def _keras_on_jax(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  os.environ["KERAS_BACKEND"] = "jax"
  from graftax.tools.benchmarks.runtimes.networks import NETWORKS

  if NETWORKS[folder.name].tensorflow_only:
    raise NotImplementedError("Keras has no layer for it on JAX")
  model = _keras_model(folder)
  others = [variable.value for variable in model.non_trainable_variables]

  def call(params: PyTree, *x: Array) -> PyTree:
    found, _ = model.stateless_call(params, others, list(x) if len(x) > 1 else x[0], training=False)
    return found

  return _run_in_jax(call, [variable.value for variable in model.trainable_variables], inputs, train)


def _keras_model(folder: Path) -> Any:
  """Returns a network as a Keras model with its weights, for the backend in `KERAS_BACKEND`."""
  import numpy as np

  from graftax.tools.benchmarks.runtimes.networks import NETWORKS

  model = NETWORKS[folder.name].build()
  with np.load(folder / "weights.npz") as weights:
    model.set_weights(list(weights.values()))
  return model


@_in_jax
def _flax(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  from graftax import savedmodel_io
  from graftax.tools.benchmarks.networks import by_hand

  name = folder.name.removeprefix("train_")
  models = {
    "mlp": by_hand.Mlp((1024, 1024, 10)),
    "resnet50": by_hand.ResNet50(),
    "mobilenet_v2": by_hand.MobileNetV2(),
    "bert": by_hand.Transformer(4, 4, 256, num_tokens=1000),
    "lstm": by_hand.Lstm(128),
  }
  if name not in models:
    raise NotImplementedError("nobody has written it in flax")
  _, params = savedmodel_io.load(folder / "saved_model").convert("serve")
  variables = by_hand.variables_of(params)
  # Statistics of batch normalization are not trained.
  others = {"batch_stats": variables.get("batch_stats", {})}
  call = models[name].apply
  return _run_in_jax(lambda params, *x: call({"params": params, **others}, *x), variables["params"], inputs, train)


def _run_in_jax(
  call: Callable[..., Any],
  params: PyTree,
  inputs: Sequence[Array],
  train: bool,
  options: Callable[[Any], dict[str, str]] = lambda traced: {},
) -> _Run:
  import jax
  import jax.numpy as jnp

  def step(params: PyTree, *x: Array) -> PyTree:
    trained, others = _split(params)

    def loss_of(trained: PyTree) -> Array:
      return jnp.square(jax.tree.leaves(call(_joined(trained, others), *x))[0]).mean()

    loss, slopes = jax.value_and_grad(loss_of)(trained)
    return loss, jax.tree.map(lambda value, slope: value - _RATE * slope, trained, slopes)

  function = step if train else call
  placed, on_device = jax.device_put(params), jax.device_put(tuple(inputs))
  chosen = options(jax.jit(function).trace(placed, *on_device))
  compiled = jax.jit(function, compiler_options=chosen)
  return lambda: jax.tree.leaves(jax.block_until_ready(compiled(placed, *on_device)))[0]


def _split(params: PyTree) -> tuple[PyTree, PyTree]:
  """Returns what is trained and what is not; converted functions have both in one dict, by names."""
  if not isinstance(params, Mapping) or not any(isinstance(name, str) and "/" in name for name in params):
    return params, {}
  others = {name: value for name, value in params.items() if "moving_" in name or value.dtype.kind != "f"}
  return {name: value for name, value in params.items() if name not in others}, others


def _joined(trained: PyTree, others: PyTree) -> PyTree:
  return {**trained, **others} if others else trained


def _named(inputs: Sequence[Array]) -> dict[str, Array]:
  return {f"x{i}": x for i, x in enumerate(inputs)}


def _tensorflow(folder: Path, inputs: Sequence[Array], train: bool, jit_compile: bool = False) -> _Run:
  import tensorflow as tf

  tensors = [tf.constant(x) for x in inputs]
  if train:
    step = tf.function(_tensorflow_step(folder), jit_compile=jit_compile)
    return lambda: step(tensors)[0].numpy()
  model = tf.saved_model.load(str(folder / "saved_model"))
  call = tf.function(lambda *x: model.serve(*x), jit_compile=jit_compile)
  return lambda: call(*tensors)["y0"].numpy()


def _tensorflow_step(folder: Path) -> Callable[[PyTree], PyTree]:
  """Returns a step of training of the Keras model, of whose batch TensorFlow knows the size.

  With the SavedModel, whose batch has any size, XLA takes the inputs for constants of the program: it compiles for 84 s
  for each batch of MobileNetV2, computes the gradients meanwhile, and returns them in 26 ms.
  """
  os.environ["KERAS_BACKEND"] = "tensorflow"
  import tensorflow as tf

  model = _keras_model(folder)

  def step(x: PyTree) -> PyTree:
    with tf.GradientTape() as tape:
      found = model(x if len(x) > 1 else x[0], training=False)
      loss = tf.reduce_mean(tf.square(found[0] if isinstance(found, (list, tuple)) else found))
    trained = [variable.value for variable in model.trainable_variables]
    slopes = map(tf.convert_to_tensor, tape.gradient(loss, trained))
    return loss, [value - _RATE * slope for value, slope in zip(trained, slopes, strict=True)]

  return step


def _tensorflow_xla(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  return _tensorflow(folder, inputs, train, jit_compile=True)


def _onnx_runtime(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  _only_inference(train)
  import onnxruntime

  # It binds its threads to cores only if it chooses their number.
  session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
  names = [x.name for x in session.get_inputs()]
  outputs = [y.name for y in session.get_outputs()]
  feed = {name: inputs[int(name.partition(":")[0].rpartition("x")[2])] for name in names}
  return lambda: session.run(outputs, feed)[0]


def _openvino(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  _only_inference(train)
  import openvino

  core = openvino.Core()
  model = core.read_model(str(folder / "model.onnx"))
  feed = {x.any_name: inputs[int(x.any_name.partition(":")[0].rpartition("x")[2])] for x in model.inputs}
  model.reshape({name: list(x.shape) for name, x in feed.items()})
  config = {"INFERENCE_NUM_THREADS": _NUM_THREADS, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
  request = core.compile_model(model, "CPU", config).create_infer_request()
  return lambda: next(iter(request.infer(feed).values()))


def _tflite(folder: Path, inputs: Sequence[Array], train: bool) -> _Run:
  _only_inference(train)
  from ai_edge_litert.interpreter import Interpreter

  interpreter = Interpreter(str(folder / "model.tflite"), num_threads=_NUM_THREADS)
  details = interpreter.get_input_details()
  feed = [(x["index"], inputs[int(x["name"].partition(":")[0].rpartition("x")[2])]) for x in details]
  for index, x in feed:
    interpreter.resize_tensor_input(index, x.shape)
  interpreter.allocate_tensors()
  output = interpreter.get_output_details()[0]["index"]

  def run() -> Array:
    for index, x in feed:
      interpreter.set_tensor(index, x)
    interpreter.invoke()
    return interpreter.get_tensor(output)

  return run


def _only_inference(train: bool) -> None:
  if train:
    raise NotImplementedError("it is for inference alone")


CONTESTANTS: dict[str, _Contestant] = {
  "graftax": _graftax,
  "graftax, frozen": _graftax_frozen,
  "TensorFlow": _tensorflow,
  "TensorFlow with XLA": _tensorflow_xla,
  "TF2JAX": _tf2jax,
  "Keras on JAX": _keras_on_jax,
  "flax": _flax,
  "ONNX Runtime": _onnx_runtime,
  "OpenVINO": _openvino,
  "TFLite": _tflite,
}
