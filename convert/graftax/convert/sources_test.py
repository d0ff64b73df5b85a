"""What cannot be converted, and what the message says of it. No TensorFlow."""

import zipfile

import jax.numpy as jnp
import pytest

from graftax.convert import ConversionError, convert


def test_keras_files_are_told_what_reads_them(tmp_path):
  with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
    archive.writestr("config.json", "{}")
  with pytest.raises(ConversionError, match=r"zip archive.*keras.models.load_model"):
    convert(tmp_path / "model.keras")
  with pytest.raises(ConversionError, match=r"HDF5 file.*keras.models.load_model"):
    convert(b"\x89HDF\r\n\x1a\n" + bytes(100))


def test_jax_functions_are_told_apart():
  with pytest.raises(ConversionError, match="JAX function already"):
    convert(jnp.sin)
