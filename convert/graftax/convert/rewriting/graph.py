"""`rewrite_graph` and `rewrite_graphs`: all XlaCallModule nodes of graphs, for another consumer."""

import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graftax.convert.errors import ConversionError
from graftax.convert.rewriting.call_module_nodes import attributes_of, call_module_nodes, set_attributes
from graftax.convert.rewriting.consumers import Consumer
from graftax.convert.rewriting.plain_calls import PlainFunctions
from graftax.convert.rewriting.uncalled_functions import uncalled_functions
from graftax.graphdef_ir import Limits, schema

if TYPE_CHECKING:
  from graftax.xla_call_module.rewriting import SharedLimits

__all__ = ["RewriteReport", "rewrite_graph", "rewrite_graphs"]

# The errors of reading, lifting or lowering a module. Errors of other classes are bugs and are not caught.
_REFUSALS = (NotImplementedError, ValueError, LookupError, TypeError)


@dataclasses.dataclass(frozen=True, slots=True)
class RewriteReport:
  """What was done to the XlaCallModule nodes of a graph.

  Attributes:
    consumer: the program that the graph was written for.
    num_transcoded: nodes whose operations were kept and written in another version.
    num_lifted: nodes whose modules were lifted to JAX and exported again.
    num_plain: nodes that became calls of functions of plain TensorFlow ops.
    num_left: nodes that stayed, in functions such as those of gradients, which a converter does not read.
  """

  consumer: str
  num_transcoded: int = 0
  num_lifted: int = 0
  num_plain: int = 0
  num_left: int = 0

  @property
  def num_nodes(self) -> int:
    """The number of XlaCallModule nodes."""
    return self.num_transcoded + self.num_lifted + self.num_plain + self.num_left

  def __str__(self) -> str:
    if not self.num_nodes:
      return f"the model has no XlaCallModule node, so the copy is the same; it was not changed for {self.consumer}"
    counts = {
      "written in another version": self.num_transcoded,
      "exported again": self.num_lifted,
      "replaced by plain ops": self.num_plain,
      "left in functions that no signature calls": self.num_left,
    }
    done = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    return f"{self.num_nodes} XlaCallModule nodes for {self.consumer}: {done}"


def rewrite_graph(
  graph: schema.GraphDef,
  consumer: Consumer | str,
  *,
  platforms: Sequence[str] | None = None,
  limits: Limits | None = None,
) -> RewriteReport:
  """Rewrites the XlaCallModule nodes of a graph and its functions in place, so that a consumer can run them.

  All other nodes, names, signatures and registered gradients stay. Gradient functions are functions of the graph, so
  their nodes are rewritten, too, and the graph keeps as many orders of derivatives as it has. Converters to other
  runtimes read only what signatures call: other functions, such as those of gradients, are not limited to the
  consumer's ops, and a node of theirs without a plain form stays as it is.

  Args:
    graph: the graph. After an error it is incomplete and must not be used.
    consumer: the program that will run the graph, see `Consumer.of`.
    platforms: "cpu", "cuda", "rocm", "tpu": where the modules will run. By default those for which they were made.
      Plain ops of TensorFlow run on all of them; "tfjs", "tflite" and "onnx" have no platforms.
    limits: how much memory and time the modules may ask for, all of them together; by default `Limits()`.

  Raises:
    ConversionError: a node cannot be rewritten, and the message names it; the cause is the error of its module. Or the
      consumer has no platforms.

  Example:
    >>> from graftax.graphdef_ir import schema
    >>> graph = schema.GraphDef(node=[schema.NodeDef(name="x", op="NoOp")])
    >>> rewrite_graph(graph, "tensorflow-2.16").num_lifted
    0
  """
  (report,) = rewrite_graphs([graph], consumer, platforms=platforms, limits=limits)
  return report


def rewrite_graphs(
  graphs: Sequence[schema.GraphDef],
  consumer: Consumer | str,
  *,
  platforms: Sequence[str] | None = None,
  limits: Limits | None = None,
) -> list[RewriteReport]:
  """Rewrites several graphs of one file, with the same limits for all of them together; see `rewrite_graph`.

  Args:
    graphs: changed in place. After an error they are incomplete and must not be used.
    consumer: the program that will run the graphs, see `Consumer.of`.
    platforms: as for `rewrite_graph`.
    limits: how much memory and time the modules of all graphs together may ask for; None is `Limits()`.

  Returns:
    A report per graph, in order.

  Raises:
    ConversionError: for the reasons listed at `rewrite_graph`.
  """
  from graftax.xla_call_module.rewriting import SharedLimits

  consumer = Consumer.of(consumer) if isinstance(consumer, str) else consumer
  if consumer.form == "files":
    raise ConversionError(
      f"{consumer.name} has no graphs of TensorFlow; graftax.savedmodel_io.write_stablehlo writes "
      "the functions of a model for it."
    )
  consumer.check_platforms(platforms)
  shared = SharedLimits.like(Limits() if limits is None else limits)
  return [_rewrite_graph(graph, consumer, platforms, shared) for graph in graphs]


def _rewrite_graph(
  graph: schema.GraphDef, consumer: Consumer, platforms: Sequence[str] | None, limits: "SharedLimits"
) -> RewriteReport:
  functions = PlainFunctions(graph.library, limits, consumer.converter)
  unread = uncalled_functions(graph) if consumer.converter else frozenset()
  counts: collections.Counter[str] = collections.Counter()
  for where, node in list(call_module_nodes(graph)):
    try:
      if where in unread:
        counts[_rewrite_unread(node, functions)] += 1
      else:
        counts[_rewrite(node, consumer, functions, platforms, limits)] += 1
    except _REFUSALS as error:
      place = f"node {node.name!r}" + (f" of function {where!r}" if where else "")
      raise ConversionError(f"XlaCallModule {place} cannot be written for {consumer.name}: {error}") from error
  if consumer.converter and counts:
    _remove_refusals_of_gradients(graph, unread)
  return RewriteReport(consumer.name, counts["transcoded"], counts["lifted"], counts["plain"], counts["left"])


def _remove_refusals_of_gradients(graph: schema.GraphDef, unread: frozenset[str]) -> None:
  """Replaces PreventGradient, which jax2tf writes with `with_gradient=False` and tf2onnx does not read, by Identity."""
  bodies = [graph.node, *(f.node_def for f in graph.library.function if f.signature.name not in unread)]
  for node in itertools.chain.from_iterable(bodies):
    if node.op == "PreventGradient":
      node.op = "Identity"
      if "message" in node.attr:
        del node.attr["message"]


def _rewrite(
  node: schema.NodeDef,
  consumer: Consumer,
  functions: PlainFunctions,
  platforms: Sequence[str] | None,
  limits: "SharedLimits",
) -> str:
  """Rewrites one node and returns how."""
  from graftax.xla_call_module.rewriting import rewrite_call_module

  attributes: dict[str, Any] = attributes_of(node)
  if consumer.form == "tf_ops":
    functions.replace(node, attributes)
    return "plain"
  rewritten = rewrite_call_module(attributes, target=consumer.target, platforms=platforms, limits=limits)
  set_attributes(node, rewritten.attributes)
  return rewritten.how


def _rewrite_unread(node: schema.NodeDef, functions: PlainFunctions) -> str:
  """Rewrites a node that the consumer does not read, if it has a plain form at all, and returns how."""
  try:
    functions.replace(node, attributes_of(node), for_consumer=False)
  except _REFUSALS:
    return "left"
  return "plain"
