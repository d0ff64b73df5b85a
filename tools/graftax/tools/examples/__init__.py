"""Small models that ship with the package, for the demo and for trying the `graftax` command."""
