"""Programs of jraph."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jax
  import jax.numpy as jnp
  import jraph

  nodes, edges, weights = drawn(4, 3), drawn(5, 2), drawn(3, 3, seed=3)
  senders, receivers = jnp.array([0, 1, 2, 3, 0]), jnp.array([1, 2, 3, 0, 2])

  def graph(nodes, edges):
    return jraph.GraphsTuple(nodes, edges, receivers, senders, jnp.ones((1, 2)), jnp.array([4]), jnp.array([5]))

  def network(nodes, edges):
    net = jraph.GraphNetwork(
      lambda e, s, r, g: jnp.tanh(e + s[:, :2] * r[:, :2]),
      lambda n, s, r, g: jax.nn.relu(n + s.sum(-1, keepdims=True) - r.sum(-1, keepdims=True)),
      lambda n, e, g: g + n.sum() + e.sum(),
    )
    out = net(graph(nodes, edges))
    return out.nodes, out.edges, out.globals

  return {
    "graph_network": (network, nodes, edges),
    "gcn": (lambda n, e, w: jraph.GraphConvolution(lambda x: x @ w)(graph(n, e)).nodes, nodes, edges, weights),
    "gat": (
      lambda n, e, w: jraph.GAT(lambda x: x @ w, lambda s, r, e: (s * r).sum(-1, keepdims=True))(graph(n, e)).nodes,
      nodes,
      edges,
      weights,
    ),
    "segment_softmax": (lambda e: jraph.segment_softmax(e[:, 0], receivers, 4), edges),
    "segment_normalize": (lambda e: jraph.segment_normalize(e, receivers, 4), edges),
    "segment_max": (lambda e: jraph.segment_max_or_constant(e, receivers, 4), edges),
    "segment_variance": (lambda e: jraph.segment_variance(e, receivers, 4), edges),
    "batched": (lambda n, e: jraph.batch([graph(n, e), graph(n * 2, e)]).nodes.sum(0), nodes, edges),
  }
