"""Command line of `python -m graftax.testing.zoo`: checks the models and prints a table."""

import argparse
import sys
from collections.abc import Sequence

from graftax.testing.differential.converters import CONVERTERS
from graftax.testing.tensorflow_programs.catalogue import DOMAINS, all_models, installed_models
from graftax.testing.zoo.check import Row, check_model
from graftax.testing.zoo.report import failures, table


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the command and returns its exit status: 1 if a check of graftax failed, 2 if no model was selected."""
  options = _parser().parse_args(arguments)
  installed = installed_models()
  for name in all_models().keys() - installed.keys():
    print(f"{name}: left out, because tensorflow-text and sentencepiece are not installed", file=sys.stderr)
  models = [model for name, model in installed.items() if name in (options.model or [name])]
  models = [model for model in models if model.kind in (options.domain or [model.kind])]
  if not models:
    print("no model matches --domain and --model", file=sys.stderr)
    return 2
  rows: list[Row] = []
  for model in models:
    rows.append(check_model(model, trace=options.trace, against=tuple(options.against)))
    print(failures(rows[-1]) or f"{model.name}: passed", file=sys.stderr, flush=True)
  print(table(rows))
  return int(any(failures(row) for row in rows))


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m graftax.testing.zoo", description="Compare saved models of many architectures with TensorFlow."
  )
  parser.add_argument("--domain", action="append", choices=DOMAINS, help="only this domain; may be repeated")
  parser.add_argument("--model", action="append", help="only this model; may be repeated")
  parser.add_argument("--trace", action="store_true", help="also compare with what `graftax inspect --trace` says")
  others = [name for name in CONVERTERS if name != "graftax"]
  parser.add_argument("--against", action="append", default=[], choices=others, help="also run another converter")
  return parser


if __name__ == "__main__":
  sys.exit(main())
