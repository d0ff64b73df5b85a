"""The `graftax` command as `python -m graftax`, if `graftax-tools` is installed."""

import sys


def main() -> None:
  try:
    from graftax.tools import cli
  except ModuleNotFoundError as e:
    if e.name != "graftax.tools":
      raise
    sys.exit(
      'The graftax command is in the package graftax-tools, which is not installed: pip install "graftax[tools]"'
    )
  cli.main()


if __name__ == "__main__":
  main()
