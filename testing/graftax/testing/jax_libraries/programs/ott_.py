"""Programs of ott."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  from ott.geometry import costs, pointcloud
  from ott.problems.linear import linear_problem
  from ott.solvers.linear import sinkhorn
  from ott.tools import soft_sort

  x, y, v = drawn(5, 2), drawn(4, 2, seed=1), drawn(6)

  def transport(**options):
    def function(x, y):
      geometry = pointcloud.PointCloud(x, y, epsilon=0.1)
      out = sinkhorn.Sinkhorn(max_iterations=30, **options)(linear_problem.LinearProblem(geometry))
      return out.reg_ot_cost

    return function

  return {
    "sinkhorn": (transport(), x, y),
    "sinkhorn_kernel": (transport(lse_mode=False), x, y),
    "soft_rank": (lambda v: soft_sort.ranks(v, epsilon=0.1), v),
    "soft_sort": (lambda v: soft_sort.sort(v, epsilon=0.1), v),
    "soft_quantile": (lambda v: soft_sort.quantile(v, q=0.4, epsilon=0.1), v),
    "cost_cosine": (lambda x, y: costs.Cosine().all_pairs(x, y), x, y),
    "kernel_matrix": (lambda x, y: pointcloud.PointCloud(x, y, epsilon=0.3).kernel_matrix, x, y),
    "cost_pnorm": (lambda x, y: costs.PNormP(1.5).all_pairs(x, y), x, y),
  }
