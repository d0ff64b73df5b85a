"""The machinery around the lowerings: the registry, kernels, the value model, and what many lowerings share."""
