"""The split of a model into work for the host and a numeric part.

- `carriers`: What travels between the parts of a split program besides arrays: known values, and strings as bytes.
- `host_arrays`: The arrays that the head computes for a numeric part, with the sizes that are open.
- `host_calls`: Head and tail around a numeric part that is somewhere else, such as in source.
- `host_function`: Runs a program on the host: strings and tables in NumPy, numbers by JAX's lowerings.
- `segment_sizes`: Gives segment reductions their number of segments as an input, so that only it has to be known.
- `split`: Splits a program into a part for the host, a numeric part in JAX, and a part for the host after it.
"""
