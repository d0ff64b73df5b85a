"""Split models as source, and their parts for the host on disk, against what TensorFlow computed."""

import dataclasses
import json
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from graftax.convert import InputError, Source, SourceError, keyword_structure, split_program, to_source
from graftax.graphdef_ir import GraftaxError
from graftax.savedmodel_io import load, read_host_parts, write_host_parts
from graftax.savedmodel_io.errors import DamagedSavedModelError, NotASavedModelError

_TESTDATA = Path(__file__).parent / "testdata"
_TEXTS = _TESTDATA / "golden/2026_11_23_text/tensorflow_2.21.0"
_TOLERANCE = 2e-6


def _run(source: Source, params, host, **inputs):
  names: dict = {}
  exec(source.text, names)
  parameters = source.parameters(params)
  held = [parameters] if source.tree else []
  if issubclass(type(names[source.name]), type):
    held = [names[source.name](parameters)]
  return names[source.run](*held, host, **inputs)


@pytest.fixture(scope="module")
def bert():
  return load(_TEXTS / "text_bert_uncased").split()


@pytest.fixture(scope="module")
def source(bert):
  return to_source(bert, host="graftax", text=["the fox", "a"])


@pytest.mark.parametrize("style", ["jax", "nnx"])
def test_source_of_a_text_model_computes_what_tensorflow_did(style, bert, tmp_path):
  if style == "nnx":
    pytest.importorskip("flax")
  source = to_source(bert, host="graftax", style=style, text=["the quick brown fox", "hello", "a"])
  assert "graftax" not in source.text.partition("\n")[2]
  write_host_parts(tmp_path / "host", source.host)
  host = read_host_parts(tmp_path / "host")
  assert [(array.dtype, array.shape) for array in host.arrays] == [("int32", ("batch", 16))] * 3
  assert host.ops == source.host.ops and "CaseFoldUTF8" in host.ops["head"]
  with np.load(_TEXTS / "text_bert_uncased.npz") as stored:
    outputs = _run(source, bert.params, host, text=stored["in:text"].tolist())
    for name in ("ids", "mask", "types"):
      np.testing.assert_array_equal(outputs[name], stored[f"out:{name}"])
    np.testing.assert_allclose(outputs["pooled"], stored["out:pooled"], rtol=_TOLERANCE, atol=_TOLERANCE)


@pytest.mark.parametrize(
  "name", ["text_fast_wordpiece", "text_sentencepiece", pytest.param("text_wordpiece", marks=pytest.mark.slow)]
)
def test_source_of_a_tokenizer_takes_texts_of_other_lengths(name, tmp_path):
  library = {"text_sentencepiece": "sentencepiece", "text_fast_wordpiece": "flatbuffers"}.get(name)
  if library is not None:
    pytest.importorskip(library)
  split = load(_TEXTS / name).split()
  with np.load(_TEXTS / f"{name}.npz") as stored:
    texts = stored["in:text"].tolist()
    source = to_source(split, host="graftax", text=texts[:4])
    write_host_parts(tmp_path / "host", source.host)
    outputs = _run(source, split.params, read_host_parts(tmp_path / "host"), text=texts)
    expected = {key.removeprefix("out:"): stored[key] for key in stored.files if key.startswith("out:")}
  assert sorted(outputs) == sorted(expected)
  for key, wanted in expected.items():
    actual = np.asarray(outputs[key])
    if wanted.dtype.kind == "f":
      np.testing.assert_allclose(actual, wanted, rtol=_TOLERANCE, atol=_TOLERANCE)
    else:
      np.testing.assert_array_equal(actual.astype(bytes) if wanted.dtype.kind == "S" else actual, wanted)


def test_a_split_model_is_refused_unless_graftax_may_be_called(bert):
  with pytest.raises(
    SourceError, match=r"(?s)runs on the host.*head: CaseFoldUTF8 x1: '.*CaseFoldUTF8'.*host='graftax'"
  ):
    to_source(bert, text=["a"])
  with pytest.raises(InputError, match="host='tf'"):
    to_source(bert, text=["a"], host="tf")


def test_inputs_that_the_numeric_part_was_not_made_for_are_refused(source):
  host = source.host
  with pytest.raises(InputError, match=r"shape \[0, 16\], and open sizes .* are at least 1"):
    host.head(text=[])
  with pytest.raises(InputError, match=r"results \['mask', 'pooled', 'types'\] are missing"):
    host.tail({"ids": np.zeros((1, 16), np.int32)}, ())


@pytest.mark.parametrize(
  "change",
  [
    lambda arrays: arrays[0].pop("shape"),
    lambda arrays: arrays[0].update(shape=[True, 16]),
    lambda arrays: arrays[0].update(shape=["a b", 16]),
    lambda arrays: arrays[0].update(dtype="object"),
    lambda arrays: arrays[0].update(name="a b"),
    lambda arrays: arrays[0].update(name="while"),
    lambda arrays: arrays[0].update(value=3),
    lambda arrays: arrays[0].update(name="a " * 1_000_000),
    lambda arrays: arrays[0].update(shape=["batch", 10**30]),
    lambda arrays: arrays[0].update(value=[1] * 1_000_000),
    lambda arrays: arrays[0].update(value=[1, 2], shape=["batch"]),
    lambda arrays: arrays[0].update(value=[1], shape=[1], dtype="float32"),
    lambda arrays: arrays[0].update(dtype="float32"),
    lambda arrays: arrays[0].update(dtype="bool"),
    lambda arrays: arrays.append(3),
    lambda arrays: arrays.extend(arrays * 3),
  ],
)
def test_damaged_descriptions_are_errors(change, source, tmp_path):
  write_host_parts(tmp_path / "host", source.host)
  file = tmp_path / "host/assets/arrays.json"
  described = json.loads(file.read_text())
  change(described["arrays"])
  file.write_text(json.dumps(described))
  with pytest.raises(GraftaxError, match="does not describe arrays|do not fit") as raised:
    read_host_parts(tmp_path / "host")
  assert len(str(raised.value)) < 1000


def test_results_may_have_any_name(source, tmp_path):
  names = ("tf.nn.softmax", "class", "scores-1", "rest_0")[: len(source.host.results)]
  write_host_parts(tmp_path / "host", dataclasses.replace(source.host, results=names))
  host = read_host_parts(tmp_path / "host")
  assert host.results == names
  results = {name: np.full((2, 16), i, np.float32) for i, name in enumerate(names)}
  _, rest = host.head(text=["the fox", "a"])
  expected = source.host.tail(dict(zip(source.host.results, results.values(), strict=True)), rest)
  jax.tree.map(np.testing.assert_array_equal, host.tail(results, rest), expected)


def test_descriptions_without_results_are_errors(source, tmp_path):
  write_host_parts(tmp_path / "host", source.host)
  file = tmp_path / "host/assets/arrays.json"
  for results in (None, [3], ["a"], ["a"] * len(source.host.results)):
    file.write_text(json.dumps({**json.loads(file.read_text()), "results": results}))
    with pytest.raises(GraftaxError, match="does not describe arrays|do not fit"):
      read_host_parts(tmp_path / "host")


def test_the_function_that_calls_graftax_has_names_of_its_own(bert):
  with pytest.raises(InputError, match="name='host': a variable"):
    to_source(bert, name="host", host="graftax", text=["the fox", "a"])


def test_descriptions_that_are_not_json_are_errors(source, tmp_path):
  write_host_parts(tmp_path / "host", source.host)
  file = tmp_path / "host/assets/arrays.json"
  file.write_text("[" * (sys.getrecursionlimit() * 100))
  with pytest.raises(DamagedSavedModelError, match="does not describe arrays"):
    read_host_parts(tmp_path / "host")
  file.unlink()
  with pytest.raises(NotASavedModelError, match=r"assets/arrays\.json"):
    read_host_parts(tmp_path / "host")


def test_the_numeric_part_has_gradients(bert, source):
  head, body, params, _ = bert
  names: dict = {}
  exec(source.text, names)
  arrays, _ = source.host.head(text=["hello", "the quick fox", "b"])
  written = jax.grad(lambda p: names["model"](p, *arrays)["pooled"].sum())(source.parameters(params))
  tensors = head(text=["hello", "the quick fox", "b"])
  position = source.host.results.index("pooled")
  original = jax.grad(lambda p: body(p, *tensors)[0][position].sum())(params)
  # Of gradients of up to 0.06, JAX 0.10 rounds some that are near zero in another order, by 1e-9.
  nested = source.parameters(original)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), written, nested)


@pytest.mark.parametrize(
  "name", ["\N{LATIN SMALL LIGATURE FI}eld", "\N{MATHEMATICAL BOLD SMALL H}ost", "__debug__", "self", '\'\\n"""{x}']
)
def test_inputs_may_have_any_name(name):
  program = load(_TEXTS / "text_bert_uncased").program()
  split = split_program(
    dataclasses.replace(program, inputs=keyword_structure({name: program.inputs.kwargs["text"]}, {}))
  )
  source = to_source(split, host="graftax", **{name: ["the fox", "a"]})
  assert _run(source, split.params, source.host, **{name: ["a"]})["ids"].shape == (1, 16)
