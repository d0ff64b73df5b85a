"""Templates, one file for each kind: the public functions of the file. `registry.KINDS` lists the kinds."""
