"""Hub modules as JAX functions: modules of TF-Hub, of TF1 and TF2, and models on Kaggle, without TensorFlow.

`load` takes a path, an archive or a handle, and uses the caches of `tensorflow_hub` and `kagglehub`. What it returns is
a `graftax.savedmodel_io.SavedModel`.

- `load`: `load`, which finds a module by its handle and reads it.
- `handles`: parses handles.
- `kaggle_names`: which model on Kaggle a tfhub.dev handle became.
- `sources`: the places in which a module is looked up and to which it is fetched.
- `tfhub_cache`: TF-Hub's cache.
- `kaggle_cache`: Kaggle's cache.
- `cache_folders`: makes the folders of caches, and checks who can write to them.
- `download`: downloads, in TF-Hub's protocol and through kagglehub.
- `archives`: unpacks archives that may be damaged or hostile.
- `module`: `HubModule`, what a hub module is beside a SavedModel.
- `errors`: the errors of this package.
"""

from graftax.graphdef_ir import LimitExceededError, Limits
from graftax.hub_io.load import load
from graftax.hub_io.module import HubModule

__version__ = "0.1.0"

__all__ = ["HubModule", "LimitExceededError", "Limits", "load"]
