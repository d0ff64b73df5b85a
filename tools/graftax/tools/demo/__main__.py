"""Runs the demo: `python -m graftax.tools.demo`."""

from graftax.tools.demo.steps import main

if __name__ == "__main__":
  main()
