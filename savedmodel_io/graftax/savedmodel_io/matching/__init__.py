"""TensorFlow's parameters in a model that somebody else wrote: `match`.

- `match`: the call, and what it returns.
- `comparison`: both functions on the same data, and which layer differs first.
- `trials`: ways between which nothing else decides, tried.
- `search`: what each layer of the target can be made of.
- `assignment`: which layer is which, by names or by the order of use.
- `cells`: recurrent cells, whose gates are in other orders.
- `fused`: layers that one side has as one and the other as several.
- `running`, `uses`: functions run layer by layer, and where they use parameters.
- `layers`, `words`, `layouts`: parameters as layers, names as words, and arrays in other layouts.
- `targets`: the parameters of modules and trees of other libraries.
"""
