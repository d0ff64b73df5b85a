"""What an index displays of each wheel, and what the wheel holds besides the code."""

import email.message
import email.parser
import importlib
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from build_wheel import build, with_absolute_links
from bump_version import project_files
from cleanroom import PACKAGES, ROOT

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ATTRIBUTE = re.compile(r"\b(?:href|src)\s*=")
_FENCED = re.compile(r"```.*?```", re.DOTALL)
_PROJECTS = [path.parent for path in project_files(ROOT)]
_NAMES = [folder.name for folder in _PROJECTS]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
  """Returns the wheel of each project folder."""
  out = tmp_path_factory.mktemp("dist")
  return {folder.name: build(folder, out) for folder in _PROJECTS}


def _metadata(wheel: Path) -> email.message.Message:
  with zipfile.ZipFile(wheel) as archive:
    (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    return email.parser.Parser().parsestr(archive.read(name).decode())


def _project(folder: Path) -> dict:
  return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("name", _NAMES)
def test_every_link_of_a_readme_is_absolute_and_leads_to_a_file_of_the_tree(wheels, name):
  metadata = _metadata(wheels[name])
  text = _FENCED.sub("", str(metadata.get_payload()))
  assert metadata["Description-Content-Type"] == "text/markdown"
  assert not _ATTRIBUTE.search(text), "links of HTML are not made absolute"
  repository = _project(ROOT / "convert")["urls"]["Homepage"]
  prefix = f"{repository}/blob/v{metadata['Version']}/"
  for link in _LINK.findall(text):
    assert link.startswith(("https://", "#")), link
    if link.startswith(repository):
      assert (ROOT / link.removeprefix(prefix).partition("#")[0]).exists(), link


def test_links_in_code_and_to_elsewhere_stay():
  project = {"version": "1.2.3", "urls": {"Source": "https://example.org/r/tree/main/a/b"}}
  readme = "[x](../C.md#d) [y](#here) [z](https://z.org) [m](mailto:a@b.c)\n```\nf[0](x)\n```\n![i](i.png)"
  assert with_absolute_links(readme, project) == (
    "[x](https://example.org/r/blob/v1.2.3/a/C.md#d) [y](#here) [z](https://z.org) [m](mailto:a@b.c)\n"
    "```\nf[0](x)\n```\n![i](https://example.org/r/blob/v1.2.3/a/b/i.png)"
  )


@pytest.mark.parametrize("folder", _PROJECTS, ids=_NAMES)
def test_urls_name_one_repository_and_files_of_the_tree(folder):
  urls = _project(folder)["urls"]
  repository = _project(ROOT / "convert")["urls"]["Homepage"]
  assert urls["Homepage"] == repository
  assert urls["Source"] == f"{repository}/tree/main/{folder.relative_to(ROOT)}"
  for url in urls.values():
    assert url.startswith(repository)
    path = re.sub(r"^/(?:blob|tree)/main/", "", url.removeprefix(repository))
    assert path in ("", "/issues", "/releases") or (ROOT / path).exists(), url


@pytest.mark.parametrize("folder", _PROJECTS, ids=_NAMES)
def test_a_project_has_keywords_and_the_classifiers_of_all_projects(folder):
  project = _project(folder)
  assert project["keywords"]
  assert project["classifiers"] == _project(ROOT / "convert")["classifiers"]
  assert project["license"] == "Apache-2.0"


@pytest.mark.parametrize("name", _NAMES)
def test_a_wheel_holds_the_license_and_no_tests(wheels, name):
  with zipfile.ZipFile(wheels[name]) as archive:
    names = archive.namelist()
    (license_name,) = (n for n in names if n.endswith(".dist-info/licenses/LICENSE"))
    assert archive.read(license_name) == (ROOT / "LICENSE").read_bytes()
  modules = [Path(n) for n in names if ".dist-info/" not in n]
  assert not [str(p) for p in modules if p.name.endswith(("_test.py", ".pyc")) or p.name == "conftest.py"]
  assert not [str(p) for p in modules if {"testdata", "__pycache__"} & set(p.parts)]
  assert {p.parts[0] for p in modules} == {"graftax"}
  assert name not in PACKAGES or {p.parts[1] for p in modules} == {name}


@pytest.mark.parametrize("name", _NAMES)
def test_names_in_a_wheel_differ_in_more_than_case(wheels, name):
  with zipfile.ZipFile(wheels[name]) as archive:
    names = archive.namelist()
  assert len({n.lower() for n in names}) == len(names)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_version_of_a_module_is_that_of_its_wheel(package):
  module = importlib.import_module(f"graftax.{package}")
  assert module.__version__ == _project(ROOT / package)["version"]
