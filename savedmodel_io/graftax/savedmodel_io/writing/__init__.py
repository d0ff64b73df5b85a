"""Writers of checkpoints and SavedModels, without TensorFlow."""
