"""From a function to a `Plan`: which nodes run, in which order, and what keeps a graph from being converted."""
