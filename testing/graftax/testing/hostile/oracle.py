"""What TensorFlow says of a graph that was accepted."""

from pathlib import Path
from typing import Any

from graftax.graphdef_ir import schema

__all__ = ["judge"]


def judge(path: Path, value: Any) -> str:
  """Returns why TensorFlow refuses to import the graph of a file; an empty string if it imports it.

  Args:
    path: a GraphDef or SavedModel message.
    value: what our reader made of it.
  """
  from graftax.testing._tensorflow import import_tensorflow

  tf = import_tensorflow()
  data = path.read_bytes()
  graph_def = tf.compat.v1.GraphDef()
  if path.name == "saved_model.pb":
    data = schema.SavedModel.FromString(data).meta_graphs[0].graph_def.SerializeToString()
  try:
    graph_def.ParseFromString(data)
    with tf.Graph().as_default():
      tf.import_graph_def(graph_def, name="")
  except Exception as e:
    return f"{type(e).__name__}: {' '.join(str(e).split())}"
  return ""
