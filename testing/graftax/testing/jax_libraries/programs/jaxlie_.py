"""Programs of jaxlie."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import jaxlie

  t3, t6, p3 = drawn(3), drawn(6), drawn(3, seed=1)

  def interpolated(a, b, fraction):
    return a @ jaxlie.SE3.exp(fraction * (a.inverse() @ b).log())

  return {
    "so2": (lambda t: jaxlie.SO2.exp(t[:1]).apply(t[1:]), t3),
    "so3_exp": (lambda t, p: jaxlie.SO3.exp(t).apply(p), t3, p3),
    "so3_log": (lambda t: (jaxlie.SO3.exp(t) @ jaxlie.SO3.from_x_radians(0.3)).log(), t3),
    "so3_rpy": (lambda t: jaxlie.SO3.from_rpy_radians(*t).as_matrix(), t3),
    "so3_quaternion": (lambda t: jaxlie.SO3.from_matrix(jaxlie.SO3.exp(t).as_matrix()).wxyz, t3),
    "se2": (lambda t: jaxlie.SE2.exp(t).inverse().log(), t3),
    "se3_exp": (lambda t: jaxlie.SE3.exp(t).as_matrix(), t6),
    "se3_log": (lambda t: (jaxlie.SE3.exp(t) @ jaxlie.SE3.exp(-t / 2)).log(), t6),
    "se3_adjoint": (lambda t: jaxlie.SE3.exp(t).adjoint(), t6),
    "se3_interpolate": (lambda t: interpolated(jaxlie.SE3.exp(t), jaxlie.SE3.exp(t * 0.1), 0.3).log(), t6),
    "manifold": (lambda t, p: jaxlie.manifold.rplus(jaxlie.SO3.exp(t), p).log(), t3, p3),
  }
