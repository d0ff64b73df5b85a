"""The locks are those of their requirements, agree with each other, and hold what the packages need."""

import tomllib
from types import ModuleType

import pytest
from cleanroom import PACKAGES, ROOT
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name
from script_modules import script_module

_LOCKS = ROOT / "third_party/locks"
_ACCELERATORS = ("cuda12", "cuda13", "tpu")
_EMBEDDER = "../../examples/bazel_embedder/requirements"


@pytest.fixture(scope="module")
def locking() -> ModuleType:
  return script_module(_LOCKS / "lock.py")


@pytest.mark.parametrize("variant", ["cpu", *_ACCELERATORS, "release", _EMBEDDER])
def test_a_lock_is_renewed_when_its_requirements_change(locking, variant):
  recorded = locking.read_sources()[variant]
  assert recorded == locking.sources_digest(_LOCKS / f"{variant}.in"), f"{variant}.txt is stale: run `make lock`"


def test_a_comment_is_no_change_but_a_requirement_is(locking, tmp_path):
  source = tmp_path / "a.in"
  digests = []
  for text in ("jax\n", "# why\njax  # here\n", "jax\nnumpy\n"):
    source.write_text(text)
    digests.append(locking.sources_digest(source))
  assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("accelerator", _ACCELERATORS)
def test_an_accelerator_has_the_versions_of_the_cpu_lock(locking, accelerator):
  cpu, pins = locking.read_pins(_LOCKS / "cpu.txt"), locking.read_pins(_LOCKS / f"{accelerator}.txt")
  assert {name: pins[name] for name in pins.keys() & cpu.keys()} == {n: cpu[n] for n in pins.keys() & cpu.keys()}


@pytest.mark.parametrize("lock", ["cpu", *_ACCELERATORS])
def test_a_lock_has_all_that_the_packages_require(locking, lock):
  pins = {canonicalize_name(name) for name in locking.read_pins(_LOCKS / f"{lock}.txt")}
  for package in PACKAGES:
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    required = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    assert {name for name in required if not name.startswith("graftax-")} <= pins, package


def test_differences_name_what_changed(locking):
  changed = locking.difference({"jax": "0.10.1", "six": "1.0"}, {"jax": "0.10.2", "tqdm": "4.0"})
  assert changed == ["jax: 0.10.1 -> 0.10.2", "six: 1.0 -> removed", "tqdm: new -> 4.0"]
