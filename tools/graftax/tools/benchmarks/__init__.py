"""Time and memory beside TF2JAX, each measurement in a process of its own: `python -m graftax.tools.benchmarks`.

A benchmark is a file that defines `BENCHMARK` and is listed in `registry.py`. The machine may be noisy: contestants run
in turns, and medians are compared.
"""
