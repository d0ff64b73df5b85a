"""The `graftax` command: options, help and error messages. Its work is in modules that are imported on use.

Exit codes: 0 done, 1 it could not be done (one message, no traceback), 2 wrong usage.
"""

import enum
import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from graftax.tools.rewrite_options import (
  Batch,
  Check,
  Constraints,
  ConsumerName,
  Force,
  FunctionInputs,
  FunctionParams,
  GradientOrder,
  OutFolder,
  Platforms,
  RewrittenModel,
  Shapes,
  Weights,
  WeightsPlace,
)

if TYPE_CHECKING:
  from graftax.tools.model_comparison import Comparison
  from graftax.tools.model_report import Graphs, ModelReport

__all__ = ["app", "main"]

_HELP = """
TensorFlow SavedModels as JAX programs, and JAX functions as SavedModels, without TensorFlow.

- `graftax inspect my_model`

- `graftax inspect https://tfhub.dev/google/yamnet/1`

- `graftax run my_model --input x=x.npy --output y.npz`

- `graftax convert my_model --out my_model_jax`

- `graftax export model.py:predict --input "x=float32[batch,3]" --out my_model`

- `graftax rewrite my_model --for tensorflow-2.16 --out my_older_model`

In Python the same is `graftax.savedmodel_io.load("my_model").convert()`.
"""

# Set to anything but "" or "0", unexpected errors end with a traceback.
_TRACEBACK = "GRAFTAX_TRACEBACK"


class Lowering(enum.StrEnum):
  """What a JAX function becomes in TensorFlow."""

  STABLEHLO = "stablehlo"
  TF_OPS = "tf_ops"


class SourceStyle(enum.StrEnum):
  """What `graftax source` writes."""

  JAX = "jax"
  NNX = "nnx"


class HostCalls(enum.StrEnum):
  """What source calls for the parts of a model that run on the host."""

  GRAFTAX = "graftax"


class RunHeadWith(enum.StrEnum):
  """What runs the head of a split model."""

  NUMPY = "numpy"
  TENSORFLOW = "tensorflow"


_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
# Rows of a table without --all.
_NUM_ROWS = 30
# The first bytes of what `html_report` writes.
_PAGE = b"<!doctype html>"

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

app = typer.Typer(
  name="graftax",
  help=_HELP,
  no_args_is_help=True,
  rich_markup_mode="markdown",
  add_completion=False,
  pretty_exceptions_enable=False,
)

Model = Annotated[
  str,
  typer.Argument(
    metavar="MODEL",
    help="Folder of the SavedModel, with saved_model.pb in it; a .tar.gz archive of one; a frozen graph (.pb, .pbtxt); "
    "the .meta file of a TF1 checkpoint; or the handle of a hub module, such as https://tfhub.dev/google/yamnet/1 or "
    "google/yamnet/tensorFlow2/yamnet/1.",
  ),
]
Tags = Annotated[
  list[str] | None,
  typer.Option(
    "--tag", help="Tag of the MetaGraph to read; repeat it for several. Not needed if there is one MetaGraph."
  ),
]
SignatureName = Annotated[str, typer.Option("--signature", "-s", help="Name of the signature.")]
OptionalSignatureName = Annotated[
  str | None,
  typer.Option(
    "--signature", "-s", help="Name of the signature; by default serving_default, or default in hub modules."
  ),
]


AllowFilesIn = Annotated[
  list[str] | None,
  typer.Option(
    "--allow-files-in", metavar="FOLDER",
    help="A folder whose files the model may read, besides its own: to which its symbolic links or tables lead.",
  ),
]  # fmt: skip
Sha256 = Annotated[
  str | None, typer.Option("--sha256", metavar="DIGEST", help="The SHA-256 digest that the archive must have.")
]
WithCompilerOptions = Annotated[
  bool,
  typer.Option(
    "--compiler-options/--no-compiler-options", help="Compile with the options of XLA that were measured to be faster."
  ),
]
AllowHttp = Annotated[bool, typer.Option("--allow-http", help="Download over plain http, which others can change.")]
AllowHost = Annotated[
  list[str] | None,
  typer.Option("--allow-host", metavar="HOST", help="A host to which the server of the module may redirect."),
]


def _load_options(
  allow_files_in: list[str] | None, sha256: str | None, allow_http: bool, allow_hosts: list[str] | None
) -> dict[str, object]:
  return {
    "allow_files_in": allow_files_in or (),
    "sha256": sha256,
    "allow_http": allow_http,
    "allow_hosts": allow_hosts or (),
  }


def _print_version(value: bool) -> None:
  if value:
    from graftax.tools import __version__

    typer.echo(f"graftax {__version__}")
    raise typer.Exit


@app.callback()
def _options(
  version: Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
  ] = False,
) -> None:
  pass


def main() -> None:
  """Runs the command."""
  app()


def _reports_errors(command: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
  """Shows an error as one message. For unexpected errors it says how to get the traceback."""

  @functools.wraps(command)
  def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
    from graftax.graphdef_ir.errors import GraftaxError
    from graftax.tools.console import remarks
    from graftax.tools.errors import place_in_user_code

    try:
      return command(*args, **kwargs)
    except BrokenPipeError:
      raise  # the reader of our output is gone; click ends quietly
    except (GraftaxError, OSError) as e:
      text = _message(e)
    except (typer.Exit, typer.Abort, typer.BadParameter):
      raise  # already reported, or wrong usage
    except Exception as e:
      if os.environ.get(_TRACEBACK, "0") not in ("", "0"):
        raise
      cause = place_in_user_code(e) or "an error of JAX or a bug in graftax"
      text = f"{type(e).__name__}: {_message(e)}\n({cause}; set {_TRACEBACK}=1 in the environment for the traceback)"
    remarks().print(f"error: {text}", style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)

  return wrapped


def _message(error: Exception) -> str:
  from graftax.tools.errors import notes_of

  return "\n".join([str(error) or type(error).__name__, *notes_of(error)])


@app.command("inspect")
@_reports_errors
def inspect_command(
  model: Model,
  tags: Tags = None,
  as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, for other programs.")] = False,
  show_all: Annotated[
    bool,
    typer.Option(
      "--all", help="Print all functions and parameters: not the first 30, and not only those in signatures."
    ),
  ] = False,
  trace: Annotated[
    bool,
    typer.Option(
      "--trace", help="Also trace on shapes alone: name the node and the size that stop it, and what each loop becomes."
    ),
  ] = False,
  html: Annotated[
    Path | None,
    typer.Option(
      "--html", metavar="FILE",
      help="Write a page to FILE instead, with the graph by scopes; it needs no network. With --json too, print that.",
    ),
  ] = None,
  other_model: Annotated[
    str | None, typer.Option("--compare", metavar="MODEL", help="Also show what another model has or lacks.")
  ] = None,
  allow_files_in: AllowFilesIn = None,
  sha256: Sha256 = None,
  allow_http: AllowHttp = False,
  allow_host: AllowHost = None,
) -> None:  # fmt: skip
  """Shows a model's signatures, functions, parameters and ops, and whether they can be converted.

  `with split` means that a part of the model, such as text, runs on the host: use `graftax run` or SavedModel.split.

  For a checkpoint, a Keras file (.keras, .h5) or safetensors, it shows the weights; for a file of jax.export,
  Module.save or StableHLO, its inputs and how to run it.

  Reads no parameter's values, so it is quick for models of any size. With --trace it takes as long as jax.jit needs to
  trace every signature and function.

  - `graftax inspect my_model`

  - `graftax inspect my_model --trace`

  - `graftax inspect my_model --html report.html`

  - `graftax inspect my_model --compare my_older_model`

  - `graftax inspect my_model --json | jq '.ops[] | select(.supported | not)'`
  """
  import dataclasses

  from graftax.hub_io import load
  from graftax.savedmodel_io.writing.atomic import check_new_file
  from graftax.tools.console import progress, results
  from graftax.tools.errors import CommandError
  from graftax.tools.model_comparison import compare
  from graftax.tools.model_report import report_model, report_with_graphs
  from graftax.tools.module_report import report_module
  from graftax.tools.weights_report import report_weights

  if html is not None:
    check_new_file(html)
  with progress() as bar:
    bar.add_task(f"reading {model}", total=None)
    other = report_module(model) or report_weights(model, allow_files_in or ())
    options: Any = _load_options(allow_files_in, sha256, allow_http, allow_host)
    found = report_with_graphs(load(model, tags or None, verify=False, **options), trace=trace) if not other else None
    comparison = None
    if other_model is not None and found is not None:
      bar.add_task(f"reading {other_model}", total=None)
      comparison = compare(found[0], report_model(load(other_model, verify=False, **options)))
  if other_model is not None and comparison is None:
    raise CommandError(f"--compare: {model} is {other.kind if other else 'no model'}; expected two models with graphs.")
  if html is not None:
    _write_page(html, found, comparison)
  report = found[0] if found is not None else other
  assert report is not None, "internal: a file is a model, weights or a module"
  if as_json:
    compared = {} if comparison is None else {"comparison": dataclasses.asdict(comparison)}
    typer.echo(json.dumps(report.to_json() | compared, indent=2))
  elif html is None:
    from graftax.tools.model_view import print_comparison, print_report

    print_report(report, results(), num_rows=None if show_all else _NUM_ROWS)
    if comparison is not None:
      print_comparison(comparison, results(), num_rows=None if show_all else _NUM_ROWS)


@app.command("run")
@_reports_errors
def run_command(
  model: Model,
  inputs: Annotated[
    list[str] | None,
    typer.Option(
      "--input", "-i", metavar="NAME=FILE",
      help="An input from FILE.npy, from FILE.npz:KEY, or all inputs from one FILE.npz. Strings from the lines of "
      "FILE.txt, or each from a whole file, such as an image.",
    ),
  ] = None,
  output: Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write the outputs to this .npz, or one output to this .npy. Else print them."),
  ] = None,
  signature: OptionalSignatureName = None,
  tags: Tags = None,
  batch_size: Annotated[
    int | None, typer.Option(min=1, help="Examples to run at a time, if all at once need too much memory.")
  ] = None,
  seed: Annotated[int, typer.Option(help="For signatures that draw random numbers.")] = 0,
  max_sizes: Annotated[
    list[str] | None,
    typer.Option(
      "--max-size", metavar="NAME=N",
      help="Bound of a size that depends on data, by the name of a node or an op, such as Where=100.",
    ),
  ] = None,
  run_head_with: Annotated[
    RunHeadWith,
    typer.Option(help="What runs the part of the model for text and files; tensorflow has ops that graftax lacks."),
  ] = RunHeadWith.NUMPY,
  with_compiler_options: WithCompilerOptions = True,
  force: Annotated[bool, typer.Option("--force", "-f", help="Replace the file of --output, if it is there.")] = False,
  allow_files_in: AllowFilesIn = None,
  sha256: Sha256 = None,
  allow_http: AllowHttp = False,
  allow_host: AllowHost = None,
) -> None:  # fmt: skip
  """Runs a signature with JAX on arrays from files.

  - `graftax run my_model --input images=images.npy`

  - `graftax run my_model -i images=data.npz:x_test -o predictions.npz --batch-size 256`

  - `graftax run my_text_model -i text=sentences.txt`

  - `graftax run my_image_model -i image_bytes=cat.jpg -i image_bytes=dog.png`
  """
  from graftax.convert import keep_freed_memory
  from graftax.tools.run_model import run_model

  keep_freed_memory()
  run_model(
    model,
    inputs or (),
    output,
    signature=signature,
    tags=tags,
    batch_size=batch_size,
    seed=seed,
    max_sizes=_sizes(max_sizes or ()),
    run_head_with="tensorflow" if run_head_with is RunHeadWith.TENSORFLOW else "numpy",
    force=force,
    with_compiler_options=with_compiler_options,
    load_options=_load_options(allow_files_in, sha256, allow_http, allow_host),
  )


@app.command("convert")
@_reports_errors
def convert_command(
  model: Model,
  out: Annotated[Path, typer.Option("--out", "-o", help="Folder to create.")],
  signature: OptionalSignatureName = None,
  tags: Tags = None,
  batch: Annotated[
    str, typer.Option(metavar="SIZE|symbolic", help="Batch size, if it is left open; `symbolic` allows any.")
  ] = "symbolic",
  shapes: Annotated[
    list[str] | None,
    typer.Option(
      "--shape", metavar="NAME=SIZES",
      help="Open sizes of an input, such as images=8,224,224,3. A name allows any size, ? is the default.",
    ),
  ] = None,
  constraints: Annotated[
    list[str] | None,
    typer.Option("--constraint", metavar="CONDITION", help="A condition on named sizes, such as width>=2."),
  ] = None,
  platforms: Annotated[
    str | None,
    typer.Option(
      help="Platforms to run on, separated by commas. By default cpu,cuda,tpu, or those that the model has code for."
    ),
  ] = None,
  gradient: Annotated[bool, typer.Option("--gradient", help="Include the derivative, for jax.grad.")] = False,
  with_compiler_options: WithCompilerOptions = True,
  force: Annotated[bool, typer.Option("--force", "-f", help="Replace the folder if it exists.")] = False,
  allow_files_in: AllowFilesIn = None,
  sha256: Sha256 = None,
  allow_http: AllowHttp = False,
  allow_host: AllowHost = None,
) -> None:  # fmt: skip
  """Writes a signature as a program that plain JAX loads, without graftax and without TensorFlow.

  The folder holds program.jax (jax.export, which JAX reads for six months), the same program as program.stablehlo.zip
  (which graftax-xla-call-module reads after that), parameters.safetensors, manifest.json and load.py, which loads them.

  - `graftax convert my_model --out my_model_jax`

  - `graftax convert my_model --out my_model_jax --shape images=batch,224,224,3 --gradient`
  """
  from rich import filesize

  from graftax.tools.console import remarks
  from graftax.tools.export_model import export_model

  exported = export_model(
    model,
    out,
    signature=signature,
    tags=tags,
    batch=batch,
    shapes=shapes or (),
    constraints=constraints or (),
    platforms=None if platforms is None else _platform_names(platforms),
    gradient=gradient,
    force=force,
    with_compiler_options=with_compiler_options,
    load_options=_load_options(allow_files_in, sha256, allow_http, allow_host),
  )
  typer.echo(exported.code, nl=False)
  sizes = ", ".join(f"{name} {filesize.decimal(size)}" for name, size in exported.size_bytes.items())
  remarks().print(f"{exported.folder}: {sizes}. The code above is in {exported.folder / 'load.py'}.", markup=False)


@app.command("source")
@_reports_errors
def source_command(
  model: Model,
  out: Annotated[Path, typer.Option("--out", "-o", help="The folder to create.")],
  signature: OptionalSignatureName = None,
  tags: Tags = None,
  batch: Annotated[
    str, typer.Option(help="Size of first dimensions that the signature leaves open: a number, or symbolic.")
  ] = "symbolic",
  shapes: Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=SIZES", help="Sizes of an input, such as images=batch,224,224,3."),
  ] = None,
  constraints: Annotated[
    list[str] | None,
    typer.Option("--constraint", metavar="CONDITION", help="What holds for sizes, such as 'width>=2'."),
  ] = None,
  style: Annotated[SourceStyle, typer.Option(help="Functions, or modules of flax.nnx.")] = SourceStyle.JAX,
  host: Annotated[
    HostCalls | None,
    typer.Option(help="What the source calls for strings, tables of strings and images. Without it they are refused."),
  ] = None,
  inputs: Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=FILE", help="With --host, an example input as for `graftax run`."),
  ] = None,
  force: Annotated[bool, typer.Option("--force", "-f", help="Replace source that is in the folder.")] = False,
  allow_files_in: AllowFilesIn = None,
  sha256: Sha256 = None,
  allow_http: AllowHttp = False,
  allow_host: AllowHost = None,
) -> None:
  """Writes a signature as Python that imports only jax and numpy, or flax too, to read, change and own.

  The folder holds model.py, params.safetensors, README.md, params.py, which reads the parameters, and check.py, which
  runs the model on stored inputs and compares its results with those of the original.

  - `graftax source my_model -o my_model_source`

  - `graftax source my_model -o my_model_source --shape images=batch,224,224,3`

  - `graftax source my_model -o my_model_source --style nnx`

  - `graftax source my_text_model -o my_text_source --host graftax -i text=sentences.txt`
  """
  from graftax.tools.console import remarks
  from graftax.tools.source_folder import write_source

  written = write_source(
    model,
    out,
    signature=signature,
    tags=tags,
    batch=batch,
    shapes=shapes or (),
    constraints=constraints or (),
    style=style.value,
    host=None if host is None else "graftax",
    inputs=inputs or (),
    force=force,
    load_options=_load_options(allow_files_in, sha256, allow_http, allow_host),
  )
  definitions = "class" if style == "nnx" else "function"
  plural = "" if written.num_functions == 1 else "es" if style == "nnx" else "s"
  remarks().print(
    f"{written.folder / 'model.py'}: {written.num_lines} lines, {written.num_functions} {definitions}{plural}. "
    f"`python {written.folder / 'check.py'}` compares it with the original.",
    markup=False,
  )


@app.command("export")
@_reports_errors
def export_command(
  function: Annotated[
    str,
    typer.Argument(
      metavar="FILE.py:FUNCTION", help="A JAX function in a Python file, which is run, or MODULE:FUNCTION."
    ),
  ],
  out: Annotated[Path, typer.Option("--out", "-o", help="Folder to create.")],
  inputs: Annotated[
    list[str] | None,
    typer.Option(
      "--input", "-i", metavar="NAME=DTYPE[SIZES]",
      help="Type and sizes of an argument, such as images=float32[batch,28,28,1]. A name allows any size.",
    ),
  ] = None,
  params: Annotated[
    str | None,
    typer.Option(
      metavar="FILE|NAME",
      help="Parameters, the function's first argument: a .npz or .safetensors file, or a name in the Python file.",
    ),
  ] = None,
  constraints: Annotated[
    list[str] | None,
    typer.Option("--constraint", metavar="CONDITION", help="A condition on named sizes, such as width>=2."),
  ] = None,
  signature: SignatureName = "serving_default",
  frozen: Annotated[bool, typer.Option("--frozen", help="Write parameters that TensorFlow does not train.")] = False,
  gradient_order: Annotated[
    int, typer.Option(min=0, help="How often TensorFlow can differentiate the function.")
  ] = 2,
  target: Annotated[
    str | None,
    typer.Option(
      help="The TensorFlow that will load it, such as tensorflow-2.16; by default the oldest from 2.16 on that has "
      "everything in it. For a release that graftax does not know yet, what the newest that it knows reads. With "
      "--lowering tf_ops: onnx, tflite or tfjs, for a converter to one of these."
    ),
  ] = None,
  platforms: Annotated[
    str | None, typer.Option(help="Platforms to run on, separated by commas. By default cpu.")
  ] = None,
  lowering: Annotated[
    Lowering, typer.Option(help="What the function becomes: StableHLO, or plain ops for TF.js, ONNX and the like.")
  ] = Lowering.STABLEHLO,
  force: Annotated[bool, typer.Option("--force", "-f", help="Replace a SavedModel that is there.")] = False,
) -> None:  # fmt: skip
  """Writes a JAX function as a SavedModel, for TensorFlow and its servers.

  The parameters become variables. TensorFlow can train them, and its gradients are those of JAX.

  - `graftax export model.py:predict --input "x=float32[batch,3]" --out my_model`

  - `graftax export model.py:predict --input "x=[batch,3]" --params params.npz --out my_model`
  """
  from graftax.savedmodel_io import load
  from graftax.tools.console import remarks, results
  from graftax.tools.export_function import export_function
  from graftax.tools.model_report import report_model
  from graftax.tools.model_view import parameters_summary, signature_table

  export_function(
    function,
    out,
    inputs=inputs or (),
    params=params,
    constraints=constraints or (),
    signature=signature,
    trainable=not frozen,
    gradient_order=gradient_order,
    target=target,
    platforms=_export_platforms(platforms, lowering),
    lowering="tf_ops" if lowering is Lowering.TF_OPS else "stablehlo",
    force=force,
  )
  report = report_model(load(out))
  results().print(signature_table([s for s in report.signatures if s.name == signature]))
  remarks().print(f"{out}: parameters {parameters_summary(report.parameters)}.", markup=False)


def _write_page(
  path: Path, model: "tuple[ModelReport, dict[str, Graphs]] | None", comparison: "Comparison | None"
) -> None:
  from graftax.tools.console import remarks
  from graftax.tools.errors import CommandError
  from graftax.tools.html import html_report

  if model is None:
    raise CommandError("--html shows models of TensorFlow; this file has none.")
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and not _is_page_or_empty(path):
      raise CommandError(f"--html {path}: exists, and is not a page; choose another name.")
    path.write_text(html_report(*model, comparison), encoding="utf-8")
  except OSError as e:
    raise CommandError(f"--html {path}: cannot be written ({e.strerror}); choose another name.") from e
  remarks().print(f"{path}: open it in a browser.", markup=False)


def _is_page_or_empty(path: Path) -> bool:
  with path.open("rb") as file:
    return file.read(len(_PAGE)).lower() in (_PAGE, b"")


def _sizes(options: Sequence[str]) -> dict[str, int]:
  sizes = {}
  for option in options:
    name, _, number = option.rpartition("=")
    if not name or not number.isdecimal():
      raise typer.BadParameter(f"--max-size {option!r}; expected NAME=N, such as Where=100")
    sizes[name] = int(number)
  return sizes


def _export_platforms(text: str | None, lowering: Lowering) -> list[str] | None:
  return None if text is None and lowering is Lowering.TF_OPS else _platform_names(text or "cpu")


def _platform_names(text: str) -> list[str]:
  names = [name.strip() for name in text.split(",") if name.strip()]
  unknown = sorted(set(names) - set(_PLATFORMS))
  if unknown or not names:
    raise typer.BadParameter(f"unknown platforms {unknown}; expected some of {', '.join(_PLATFORMS)}")
  return names


@app.command("rewrite")
@_reports_errors
def rewrite_command(
  model: RewrittenModel,
  out: OutFolder,
  consumer: ConsumerName = "tensorflow",
  platforms: Platforms = None,
  gradient_order: GradientOrder = None,
  inputs: FunctionInputs = None,
  params: FunctionParams = None,
  batch: Batch = "symbolic",
  shapes: Shapes = None,
  constraints: Constraints = None,
  weights: Weights = WeightsPlace.INSIDE,
  check: Check = False,
  force: Force = False,
  allow_files_in: AllowFilesIn = None,
) -> None:
  """Writes a model for another TensorFlow, other platforms, as plain ops, or as StableHLO.

  For models that TensorFlow refuses with "XlaCallModule with version 10 is not supported", "The current platform CPU is
  not among the platforms required by the module" or "Cannot deserialize computation", and for converters that do not
  read StableHLO. All else in a SavedModel stays as it is: signatures, variables, tables, assets, derivatives.

  - `graftax rewrite my_model --for tensorflow-2.15 --out my_older_model`

  - `graftax rewrite my_model --platforms cpu --out my_cpu_model --check`

  - `graftax rewrite my_model --for onnx --out my_plain_model`

  - `graftax rewrite program.jax --for tensorflow-2.18 --out my_model`

  - `graftax rewrite my_model --for stablehlo --batch 8 --out my_stablehlo`

  - `graftax rewrite model.py:apply --for onnx --input "x=float32[1,8]" --params weights.npz --out my_plain_model`
  """
  from graftax.tools.compiled_files import FileOptions
  from graftax.tools.console import progress, remarks
  from graftax.tools.errors import CommandError
  from graftax.tools.rewrite_model import rewrite_model

  if check and (consumer.startswith("stablehlo") or not os.path.exists(model)):
    raise CommandError("--check runs a copy of a model or of a StableHLO file in TensorFlow; leave it out.")
  with progress() as bar:
    bar.add_task(f"rewriting {model}", total=None)
    done = rewrite_model(
      model,
      out,
      consumer,
      platforms=None if platforms is None else _platform_names(platforms),
      gradient_order=gradient_order,
      force=force,
      allow_files_in=allow_files_in or (),
      inputs=inputs or (),
      params=params,
      files=FileOptions(
        batch, tuple(shapes or ()), tuple(constraints or ()), "beside" if weights is WeightsPlace.BESIDE else "inside"
      ),
    )
    if check:
      bar.add_task(f"running {out} in TensorFlow", total=None)
    found = _differences_of_copy(model, out, done, allow_files_in or ()) if check else []
  for line in (f"{out}: {done}", *found):
    remarks().print(line, markup=False)


def _differences_of_copy(model: str, out: Path, done: str, allow_files_in: Sequence[str]) -> list[str]:
  """Runs a rewritten model in TensorFlow and returns a line for each signature."""
  from graftax.tools.check_rewritten import check_rewritten

  try:
    checked = check_rewritten(model, out, allow_files_in=allow_files_in)
  except Exception as e:
    e.add_note(f"{out}: {done}. The copy stays there, not confirmed.")
    raise
  return [
    f"{signature.name}: not run: an input is not numbers"
    if signature.difference is None
    else f"{signature.name}: as the original, within {signature.difference:.1e}"
    for signature in checked
  ]


@app.command("ops")
@_reports_errors
def ops_command(
  name: Annotated[
    str, typer.Argument(metavar="[NAME]", help="An op, such as Conv2D, or a pattern, such as `*Scatter*`.")
  ] = "*",
  as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, for other programs.")] = False,
) -> None:
  """Shows whether TensorFlow ops convert: the lowering, what it needs, and what works if there is none.

  - `graftax ops`

  - `graftax ops Conv2D`

  - `graftax ops "*Scatter*"`
  """
  import dataclasses

  from graftax.tools.console import results
  from graftax.tools.facts_view import op_table, print_op
  from graftax.tools.op_report import matching_ops, op_facts

  facts = [op_facts(op) for op in matching_ops(name)]
  if as_json:
    typer.echo(json.dumps([dataclasses.asdict(fact) for fact in facts], indent=2))
  elif len(facts) == 1:
    print_op(facts[0], results())
  else:
    results().print(op_table(facts))


@app.command("doctor")
@_reports_errors
def doctor_command(
  as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, for other programs.")] = False,
) -> None:
  """Shows versions, devices, and the optional libraries with the line that installs each."""
  import dataclasses

  from graftax.tools.console import results
  from graftax.tools.doctor import diagnose
  from graftax.tools.facts_view import print_diagnosis

  diagnosis = diagnose()
  if as_json:
    typer.echo(json.dumps(dataclasses.asdict(diagnosis), indent=2))
  else:
    print_diagnosis(diagnosis, results())


if __name__ == "__main__":
  main()
