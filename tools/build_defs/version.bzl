"""The version of all packages. `make bump` writes it here and into each pyproject.toml."""

VERSION = "0.1.0"
