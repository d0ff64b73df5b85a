"""The workflow files only call make targets, and the targets exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from cleanroom import ROOT

_WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
_MATRIX_VALUE = re.compile(r"\$\{\{ matrix\.(\w+) \}\}")
_MAKE = re.compile(r"make ([a-z0-9-]+)((?: [A-Z]+=(?:\"[^\"]*\"|[^\s;&|\"]+))*)")


def _load(path: Path) -> dict[str, Any]:
  return yaml.safe_load(path.read_text(encoding="utf-8"))


def _commands(job: dict[str, Any]) -> Iterator[str]:
  """Yields the commands of a job, once for each value of its matrix."""
  matrix = job.get("strategy", {}).get("matrix", {})
  for step in job["steps"]:
    used = _MATRIX_VALUE.findall(step.get("run", ""))
    assert len(set(used)) <= 1, "one matrix value in a command"
    for value in matrix[used[0]] if used else [""]:
      if "run" in step:
        yield _MATRIX_VALUE.sub(value, step["run"])


def _all_commands() -> list[tuple[str, str]]:
  return [(path.name, c) for path in _WORKFLOWS for job in _load(path)["jobs"].values() for c in _commands(job)]


def _targets() -> set[str]:
  return set(re.findall(r"^\.PHONY: ([a-z0-9-]+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.skipif(shutil.which("make") is None, reason="runs make")
def test_help_lists_all_targets():
  command = ["make", "--no-print-directory", "-C", str(ROOT), "help"]
  shown = subprocess.run(command, capture_output=True, text=True, check=True)
  assert set(re.findall(r"^  make (\S+)", shown.stdout, re.MULTILINE)) == _targets() - {
    "bazel"
  }  # which only others need


def test_the_workflows_are_there():
  assert {path.stem for path in _WORKFLOWS} == {"ci", "gpu", "nightly", "release", "tpu", "wheels"}


@pytest.mark.parametrize(("workflow", "command"), _all_commands())
def test_a_command_is_a_make_target_that_exists(workflow, command):
  match = _MAKE.fullmatch(command)
  assert match, f"{workflow}: {command!r} is not a call of make"
  assert match[1] in _targets()
  variables = set(re.findall(r"([A-Z]+)=", match[2]))
  assert all(f"$({name})" in (ROOT / "Makefile").read_text() for name in variables)


# Targets that no workflow calls: they write files of the tree, show something, or are part of another target.
_BY_HAND = frozenset(
  {
    "bazel",
    "bazel-rooms",
    "bench",
    "bench-page",
    "bench-runtimes",
    "bump",
    "clean",
    "conda-recipes",
    "demo",
    "error-index",
    "fix",
    "help",
    "lock",
    "op-index",
    "source-examples",
    "public-api",
    "test-free",
    "test-slow",
    "venv",
    "written-models",
  }
)
# These check something, and run before a release: they take hours, root, or questions to a registry.
_BEFORE_RELEASES = frozenset(
  {"applications", "bazel-lint", "bazel7-test", "jax-libraries", "matched-models", "op-checks", "resolve-wheels"}
)


def test_every_target_that_checks_something_is_in_a_workflow():
  called = {match[1] for _, command in _all_commands() if (match := _MAKE.fullmatch(command))}
  assert _targets() - called == _BY_HAND | _BEFORE_RELEASES


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_may_only_do_what_they_need(path):
  workflow = _load(path)
  assert workflow["permissions"] == {"contents": "read"}
  writing = {name for name, job in workflow["jobs"].items() if "write" in job.get("permissions", {}).values()}
  assert writing == ({"build", "publish", "attach"} if path.stem == "release" else set())
  assert all("timeout-minutes" in job for name, job in workflow["jobs"].items() if name not in ("publish", "attach"))


def test_only_jobs_that_run_no_code_of_the_tree_publish():
  jobs = _load(ROOT / ".github/workflows/release.yml")["jobs"]
  assert not [*_commands(jobs["publish"]), *_commands(jobs["attach"])]
  assert jobs["publish"]["environment"] == "release"
  assert jobs["attach"]["needs"] == "publish"


def test_a_release_has_the_archives_that_the_registries_name():
  (step,) = [
    s for s in _load(ROOT / ".github/workflows/release.yml")["jobs"]["attach"]["steps"] if "files" in s["with"]
  ]
  attached = [Path(pattern).name for pattern in step["with"]["files"].split()]
  source = json.loads((ROOT / ".bcr/source.template.json").read_text())
  address = source["url"].format(OWNER="graftax", REPO="graftax", TAG="v0.2.0")
  assert any(fnmatch(address.rpartition("/")[2], pattern) for pattern in attached)
  for recipe in (ROOT / "tools/packaging/conda").glob("*/recipe.yaml"):
    assert any(fnmatch(yaml.safe_load(recipe.read_text())["source"]["url"], "*/" + pattern) for pattern in attached)


def test_the_archive_of_the_tree_has_the_folder_that_the_registry_strips():
  source = json.loads((ROOT / ".bcr/source.template.json").read_text())
  recipe = re.search(r"git archive --prefix=(\S+)/ --output=(\S+)", (ROOT / "Makefile").read_text())
  folder, file = (text.replace("$(TAG:v%=%)", "0.2.0").replace("$(TAG)", "v0.2.0") for text in recipe.groups())
  assert folder == source["strip_prefix"].format(REPO="graftax", VERSION="0.2.0")
  assert file == "build/" + source["url"].format(OWNER="", REPO="graftax", TAG="v0.2.0").rpartition("/")[2]
