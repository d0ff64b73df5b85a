"""Neural networks: convolution, pooling, normalization, activations, losses and recurrent cells.

- `activations`: Activation functions with TensorFlow's derivatives: Relu, LeakyRelu, Elu, Selu, Softplus, Softsign,
  Softmax.
- `avg_pooling`: Average pooling over two or three spatial dimensions: AvgPool, AvgPool3D and their gradients.
- `batch_norm`: Batch normalization: FusedBatchNorm in all versions, and its gradient.
- `bias`: Bias: BiasAdd, BiasAddGrad.
- `conv`: Convolutions over one, two or three spatial dimensions, dense and grouped: Conv2D, Conv3D, Conv.
- `conv_forms`: The form of a convolution for each platform, by layout and window.
- `conv_gradients`: Gradients of convolutions: Conv2DBackpropInput, Conv2DBackpropFilter, and those of Conv3D and
  depthwise.
- `ctc`: CTCLoss (connectionist temporal classification), for labels whose alignment to the inputs is unknown.
- `ctc_decoders`: Labels from the logits of a CTC model: CTCGreedyDecoder, CTCBeamSearchDecoder.
- `cudnn_rnn`: Recurrent networks of cuDNN: CudnnRNN, CudnnRNNV2, CudnnRNNV3, and the order in which they pack weights.
- `data_format`: Translation of axes and shapes between layouts: DataFormatDimMap, DataFormatVecPermute.
- `depthwise`: Depthwise convolution, in a form that is fast on CPUs and a grouped one: DepthwiseConv2dNative.
- `dilation`: Grayscale dilation (max pooling of the input plus a filter) and its gradients: Dilation2D.
- `fractional_pooling`: Pooling over regions of random sizes: FractionalMaxPool, FractionalAvgPool and their gradients.
- `fused`: Fused convolutions and matrix products with bias, normalization and activation: _FusedConv2D, _FusedMatMul.
- `losses`: Losses: SoftmaxCrossEntropyWithLogits, SparseSoftmaxCrossEntropyWithLogits, L2Loss.
- `lrn`: Local response normalization: LRN, LRNGrad.
- `max_pooling`: Max pooling and its gradients: MaxPool, MaxPool3D, MaxPoolWithArgmax, MaxPoolGrad, MaxPoolGradGrad.
- `rnn_cells`: Recurrent cells as single ops: LSTMBlockCell, BlockLSTM, GRUBlockCell.
- `space_depth`: Spatial blocks moved into batch or channels and back: SpaceToBatchND, BatchToSpaceND, SpaceToDepth,
  DepthToSpace.
"""

# The modules that register lowerings; the others are helpers.
LOWERINGS = (
  "activations",
  "avg_pooling",
  "batch_norm",
  "bias",
  "conv",
  "conv_gradients",
  "ctc",
  "ctc_decoders",
  "cudnn_rnn",
  "data_format",
  "depthwise",
  "dilation",
  "fractional_pooling",
  "fused",
  "losses",
  "lrn",
  "max_pooling",
  "rnn_cells",
  "space_depth",
)
