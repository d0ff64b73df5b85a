"""Hub modules as JAX functions: modules of TF-Hub, of TF1 and TF2, and models on Kaggle, without TensorFlow.

`load` takes a path, an archive or a handle, and uses the caches of `tensorflow_hub` and `kagglehub`. What it returns is
a `graftax.savedmodel_io.SavedModel`.
"""

from graftax.graphdef_ir import LimitExceededError, Limits
from graftax.hub_io.load import load
from graftax.hub_io.module import HubModule

__version__ = "0.1.0"

__all__ = ["HubModule", "LimitExceededError", "Limits", "load"]
