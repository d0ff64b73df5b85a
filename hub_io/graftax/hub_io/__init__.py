"""TF-Hub modules and Kaggle cache layouts as JAX functions. Nothing is implemented yet."""

__all__: list[str] = []
