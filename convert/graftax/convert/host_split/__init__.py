"""Where the work for the host ends and the numeric part of a model begins."""
