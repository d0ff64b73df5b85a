"""TensorFlow's own reader of chunked files reads those that the tests write, so they have the format."""

import pytest
from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting

from graftax.graphdef_ir import schema
from graftax.savedmodel_io.chunked.merging_test import _COMPRESS, _MODEL, write_in_chunks


@pytest.mark.slow  # starts TensorFlow; finds a format that only our writer and our reader agree on
def test_tensorflow_reads_the_files_of_the_tests(tmp_path):
  # The open-source release can neither write nor load such models, but it computes their fingerprint.
  fingerprints = []
  for i, compression in enumerate(_COMPRESS):
    write_in_chunks(_MODEL, tmp_path / str(i), compression)
    fingerprint = schema.FingerprintDef.FromString(fingerprinting.CreateFingerprintDef(str(tmp_path / str(i))))
    fingerprints.append((fingerprint.graph_def_program_hash, fingerprint.signature_def_hash))
  assert len(set(fingerprints)) == 1 and all(fingerprints[0])
  (tmp_path / "0/saved_model.cpb").write_bytes(b"\x08\x01")
  with pytest.raises(Exception, match="Riegeli|riegeli|chunk|Chunk|cpb"):
    fingerprinting.CreateFingerprintDef(str(tmp_path / "0"))
