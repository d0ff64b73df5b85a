"""What each release of TensorFlow reads; renewed by graftax/tools/codegen/generate_tensorflow_versions.py."""

__all__ = ["TENSORFLOW_VERSIONS"]

# Release of TensorFlow: (version of StableHLO, version of the XlaCallModule node).
TENSORFLOW_VERSIONS: dict[tuple[int, int], tuple[tuple[int, int, int], int]] = {
  (2, 15): ((0, 14, 24), 8),
  (2, 16): ((0, 17, 7), 9),
  (2, 17): ((1, 1, 1), 9),
  (2, 18): ((1, 7, 3), 9),
  (2, 19): ((1, 9, 1), 9),
  (2, 20): ((1, 12, 1), 10),
  (2, 21): ((1, 13, 7), 10),
}
