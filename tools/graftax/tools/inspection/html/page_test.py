import dataclasses
import json
import re
import shutil
import subprocess

import pytest

from graftax.graphdef_ir import DType
from graftax.savedmodel_io import load
from graftax.testing.graph_builders import function, node
from graftax.tools.examples.digits import model_path
from graftax.tools.inspection.html import html_report
from graftax.tools.inspection.model_comparison import compare
from graftax.tools.inspection.model_report import report_with_graphs

_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
# Opens everything below the first graph, searches, and leaves what it saw in the title of the page.
_CLICKS = """<script>
(async () => {
  const started = performance.now(), seen = {};
  const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
  const first = document.querySelector("#graph > details");
  seen.graphs = document.querySelectorAll("#graph > details").length;
  first.querySelector("summary").click();
  await pause();
  for (let depth = 0; depth < 6; depth++) {
    const closed = [...first.querySelectorAll("details:not([open])")];
    for (const details of closed.slice(0, 20)) details.querySelector("summary").click();
    await pause();
  }
  seen.costs = [...first.querySelectorAll("summary")].filter((s) => s.textContent.includes("flop")).length;
  seen.rows = first.querySelectorAll(".node").length;
  seen.more = first.querySelectorAll("button.more").length;
  const button = first.querySelector("button.more");
  if (button) { button.click(); await pause(); }
  seen.rowsAfterMore = first.querySelectorAll(".node").length;
  const search = document.getElementById("search");
  search.value = "SEARCHED";
  search.dispatchEvent(new Event("input"));
  await new Promise((resolve) => setTimeout(resolve, 300));
  seen.found = document.querySelectorAll("#found .node").length;
  first.querySelector("summary").click();
  seen.open = first.open;
  seen.readyMs = started;
  document.title = JSON.stringify(seen);
})();
</script></body>"""


@pytest.fixture(scope="module")
def page():
  report, graphs = report_with_graphs(load(model_path(), verify=False), trace=True)
  return html_report(report, graphs, compare(report, dataclasses.replace(report, path="other", ops=())))


def test_the_page_is_one_file(page):
  text = _DATA.sub("", page)
  assert not re.search(r"https?://|\bsrc=|@import|url\(", text)
  assert "prefers-color-scheme" in text or "light-dark(" in text


def test_the_page_shows_what_signatures_take_and_how_they_are_called(page):
  assert "images: float32[?, 8, 8, 1]" in page
  assert "outputs, _ = jax.jit(fn)(params, images=images)" in page
  assert "digits/dense/kernel" in page and "73.7 kB" in page
  assert "operations" in page and "Compared with" in page and "12 nodes" in page


def test_the_graph_holds_the_nodes_of_all_functions_once(page):
  data = json.loads(_DATA.search(page)[1])
  assert [name for name, _ in data["entries"]][:2] == ["signature serve", "signature serving_default"]
  ops = [data["ops"][n[1]][0] for f in data["functions"] for n in f["nodes"]]
  assert ops.count("Conv2D") == 2


def test_names_that_look_like_html_stay_text():
  report, _ = report_with_graphs(load(model_path(), verify=False))
  nodes = [node("</script><b>", "Neg", "x", T=DType.FLOAT)]
  evil = html_report(report, {"<i>": [(function("<u>", ["x"], nodes, ["</script><b>"]), nodes)]})
  assert "</script><b>" not in evil
  assert evil.count("</script>") == 2


@pytest.mark.slow  # starts a browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
@pytest.mark.parametrize("num_nodes", [0, 50_000])
def test_scopes_open_and_close_and_nodes_are_found(page, tmp_path, num_nodes):
  searched, found = "conv2d", 2
  if num_nodes:
    report, _ = report_with_graphs(load(model_path(), verify=False))
    nodes = [node(f"m/layer_{i % 400}/n_{i}", "Neg", "x", T=DType.FLOAT) for i in range(num_nodes)]
    page = html_report(report, {"all": [(function("f", ["x"], nodes, [nodes[-1].name]), nodes)]})
    searched, found = "n_49999", 1
  seen = _click(page.replace("</body>", _CLICKS.replace("SEARCHED", searched)), tmp_path)
  assert seen["rows"] > (2000 if num_nodes else 20)
  assert seen["found"] == found
  assert not seen["open"]
  assert (seen["costs"] >= 8) == (not num_nodes)
  assert (seen["more"] > 0) == bool(num_nodes)
  assert seen["readyMs"] < 3000


def _click(page, folder):
  (folder / "page.html").write_text(page, encoding="utf-8")
  command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
  command += ["--timeout=60000", "--virtual-time-budget=20000", "--dump-dom", f"file://{folder / 'page.html'}"]
  dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
  return json.loads(re.search(r"<title>(\{.*?\})</title>", dom)[1])
