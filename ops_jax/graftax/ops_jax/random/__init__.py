"""Random numbers: stateless ops match TensorFlow bit for bit, stateful ones draw from JAX keys.

- `candidate_samplers`: Classes drawn for sampled losses: UniformCandidateSampler, LogUniformCandidateSampler,
  FixedUnigramCandidateSampler.
- `distorted_boxes`: Random crops that keep enough of an object: SampleDistortedBoundingBox,
  SampleDistortedBoundingBoxV2.
- `generator`: Random numbers from an explicit generator: the ops behind `tf.random.Generator`.
- `philox`: Generators of Philox 4x32-10 from TensorFlow's seeds, keys and counters.
- `rejection`: Gamma, Poisson and binomial numbers by rejection, drawn from Philox in TensorFlow's order.
- `stateful`: Stateful random ops: RandomUniform, RandomStandardNormal, TruncatedNormal, RandomGamma, RandomShuffle,
  Multinomial.
- `stateless`: Stateless random ops: the same numbers as TensorFlow for the same seed.
- `stateless_distributions`: Stateless gamma, Poisson, binomial and categorical numbers: the same as TensorFlow's for
  the same seed.
- `stochastic_cast`: Stochastic rounding to integers: StochasticCastToInt.
- `streams`: Uniform, normal and truncated normal numbers from a generator, as TensorFlow's CPU kernels draw them.
- `threefry`: Random numbers from ThreeFry, which TensorFlow uses on accelerators and under XLA.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "candidate_samplers",
  "distorted_boxes",
  "generator",
  "stateful",
  "stateless",
  "stateless_distributions",
  "stochastic_cast",
)
