from pathlib import Path

import graftax.savedmodel_io as savedmodel_io

_DATA = Path(__file__).with_name("testdata")


def test_a_model_is_shown_with_what_its_signatures_need():
  html = savedmodel_io.load(_DATA / "2026_11_22/text_and_shapes")._repr_html_()
  assert "<code>noise</code>" in html
  assert "yes<br>needs rng=" in html
  assert "<code>scale: float32[]</code>" in html


def test_a_converted_function_is_shown_with_its_arguments_and_variables():
  fn, _ = savedmodel_io.load(_DATA / "2026_11_23/classifier").convert("__call__", training=True)
  html = fn._repr_html_()
  assert "<code>float32[?, 4]</code>" in html
  assert "<th>variables</th><td>8, of which TensorFlow trains 5</td>" in html


def test_a_table_needs_no_network_and_no_script():
  html = savedmodel_io.load(_DATA / "2026_11_21/module")._repr_html_()
  assert "<script" not in html and "http" not in html
  assert "in parts, with split" in html
