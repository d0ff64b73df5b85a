"""Smoke test of the wheel, run where only its declared dependencies can be imported. Not shipped."""

from graftax.graphdef_ir import op_signature, parse_graph, schema, validate

nodes = [schema.NodeDef(name="x", op="Placeholder"), schema.NodeDef(name="y", op="Identity", input=["x"])]
for node, attr in zip(nodes, ("dtype", "T"), strict=True):
  node.attr[attr].type = 1
graph = parse_graph(schema.GraphDef(node=nodes).SerializeToString())
validate(graph)
assert [node.name for node in graph.nodes] == ["x", "y"]
# The table of op signatures is a data file.
assert [str(arg.name) for arg in op_signature("MatMul").inputs] == ["a", "b"]
