"""Programs of interpax."""

from graftax.testing.jax_libraries.program import Programs, drawn


def programs() -> Programs:
  import interpax
  import jax.numpy as jnp

  q = drawn(6)
  grid = jnp.linspace(0, 1, 7)
  f = drawn(7, seed=1)
  plane = drawn(7, 7, seed=2)

  def line(method):
    return lambda q, f: interpax.interp1d(q, grid, f, method=method)

  found = {
    method: (line(method), q, f)
    for method in ("nearest", "linear", "cubic", "cubic2", "cardinal", "monotonic", "akima")
  }
  found |= {
    "periodic": (lambda q, f: interpax.interp1d(q, grid[:6], f[:6], method="cubic", period=1.0), q, f),
    "plane_linear": (lambda q, p: interpax.interp2d(q, q, grid, grid, p, method="linear"), q, plane),
    "plane_cubic": (lambda q, p: interpax.interp2d(q, q, grid, grid, p, method="cubic"), q, plane),
    "fourier": (lambda f: interpax.fft_interp1d(f, 14), f),
    "spline": (lambda q, f: interpax.CubicSpline(grid, f, check=False)(q), q, f),
  }
  return found
