"""Models of Keras beside models that others wrote for JAX, and how many parameters `savedmodel_io.match` places.

    make matched-models    # in an environment of its own, see requirements.txt

The models have random weights and are small, except for those that exist in one size only.

- `pair`: What a pair of models is.
- `pairs`: the pairs, one module for each library, which is imported when its pairs are asked for.
- `report`: One pair matched and checked, exchanged placements among them, and the table.
"""
