"""Templates, one file for each kind. `registry.KINDS` lists the kinds."""
