"""The locks are those of their requirements, agree with each other, and hold what the packages need."""

import re
import tomllib
from types import ModuleType

import pytest
from cleanroom import PACKAGES, ROOT
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name
from pip._vendor.packaging.version import Version
from script_modules import script_module

from graftax.tools.facts.doctor import OUR_EXTRAS

_LOCKS = ROOT / "third_party/locks"
_ACCELERATORS = ("cuda12", "cuda13", "tpu")
_WITHOUT_A_FLOOR = ("tensorflow-text",)  # has no wheel without tensorflow, and the locks have tensorflow-cpu
_INSTALLED_AS = {"tensorflow": "tensorflow-cpu"}
_EMBEDDER = "../../examples/bazel_embedder/requirements"


@pytest.fixture(scope="module")
def locking() -> ModuleType:
  return script_module(_LOCKS / "lock.py")


@pytest.mark.parametrize("variant", ["main", "floor", *_ACCELERATORS, "release", "docs", _EMBEDDER])
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
def test_an_accelerator_has_the_versions_of_the_main_lock(locking, accelerator):
  main, pins = locking.read_pins(_LOCKS / "main.txt"), locking.read_pins(_LOCKS / f"{accelerator}.txt")
  assert {name: pins[name] for name in pins.keys() & main.keys()} == {n: main[n] for n in pins.keys() & main.keys()}


@pytest.mark.parametrize("lock", ["main", "floor", *_ACCELERATORS])
def test_a_lock_has_all_that_the_packages_require(locking, lock):
  pins = {canonicalize_name(name) for name in locking.read_pins(_LOCKS / f"{lock}.txt")}
  for package in PACKAGES:
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    required = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    assert {name for name in required if not name.startswith("graftax-")} <= pins, package


def test_the_floor_has_the_requirements_of_the_main_lock():
  main, floor = (
    {
      Requirement(line.partition("#")[0]).name
      for line in (_LOCKS / f"{lock}.in").read_text().splitlines()
      if line[:1] not in ("", "#")
    }
    for lock in ("main", "floor")
  )
  assert floor == main | {"jaxlib"}


def _declared_floors() -> dict[str, Version]:
  """Returns the oldest version of each requirement with which all packages install together, extras included."""
  floors: dict[str, Version] = {}
  for package in PACKAGES:
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    # Extras of our own work are not installed with the oldest versions.
    extras = {name: lines for name, lines in project.get("optional-dependencies", {}).items() if name not in OUR_EXTRAS}
    for requirement in map(
      Requirement, [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    ):
      name = _INSTALLED_AS.get(requirement.name, canonicalize_name(requirement.name))
      if not name.startswith("graftax-") and name not in _WITHOUT_A_FLOOR:
        (oldest,) = (Version(s.version) for s in requirement.specifier if s.operator == ">=")
        floors[name] = max(oldest, floors.get(name, oldest))
  return floors


def test_the_floor_has_the_oldest_versions_that_the_packages_declare(locking):
  pins = {canonicalize_name(name): Version(v) for name, v in locking.read_pins(_LOCKS / "floor.txt").items()}
  declared = _declared_floors()
  assert {name: pins[name] for name in declared} == declared


@pytest.mark.parametrize("lock", ["main", "floor", *_ACCELERATORS])
def test_a_lock_is_for_the_pythons_that_its_first_line_names(locking, lock):
  header, *lines = (_LOCKS / f"{lock}.txt").read_text().splitlines()
  pythons = locking.pythons_of(lock)
  assert re.findall(r"CPython (3\.\d+)", header) == list(pythons)
  (numpy,) = (line for line in lines if line.startswith("numpy=="))
  assert numpy.count("--hash=") == len(pythons)


def test_pins_of_some_pythons_have_a_marker(locking):
  both, one = locking.Pin("1.0", ("a", "b"), ("3.13", "3.12")), locking.Pin("2.0", ("c",), ("3.12",))
  assert locking.pin_line("both", both, ("3.13", "3.12")) == "both==1.0 --hash=sha256:a --hash=sha256:b\n"
  assert locking.pin_line("one", one, ("3.13", "3.12")) == 'one==2.0 ; python_version == "3.12" --hash=sha256:c\n'


def test_differences_name_what_changed(locking):
  changed = locking.difference({"jax": "0.10.1", "six": "1.0"}, {"jax": "0.10.2", "tqdm": "4.0"})
  assert changed == ["jax: 0.10.1 -> 0.10.2", "six: 1.0 -> removed", "tqdm: new -> 4.0"]
