"""Compiles files of StableHLO with IREE and runs them on its CPU runtime. Runs alone.

python run_iree.py FOLDER...
"""

import json
import os
from collections.abc import Mapping

import numpy as np


def run(path: str, inputs: Mapping[str, np.ndarray], folder: str) -> Mapping[str, np.ndarray]:
  from iree import compiler, runtime
  from safetensors.numpy import load_file

  del folder
  with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
    manifest = json.load(file)
  (function,) = manifest["functions"].values()
  code = compiler.compile_file(
    os.path.join(path, function["file"]),
    target_backends=["llvm-cpu"],
    extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"],
  )
  context = runtime.SystemContext(config=runtime.Config("local-task"))
  module = runtime.VmModule.copy_buffer(context.instance, code)
  context.add_vm_module(module)
  parameters = load_file(os.path.join(path, manifest["parameters_file"])) if "parameters_file" in manifest else {}
  arguments = [
    parameters[argument["name"]]
    if argument["kind"] == "parameter"
    else inputs[os.path.basename(argument["name"])].astype(argument["dtype"])
    for argument in function["arguments"]
  ]
  found = context.modules[module.name]["main"](*arguments)
  results = found if isinstance(found, (list, tuple)) else [found]
  return {named["name"]: np.asarray(y) for named, y in zip(function["results"], results, strict=True)}


if __name__ == "__main__":
  from _results import main

  main(run)
