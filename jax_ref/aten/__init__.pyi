# Written by `python -m parity_tests.sweep.stubs`.

from typing import Any, overload

from collections.abc import Sequence

from jax import Array
from jax.typing import ArrayLike, DTypeLike

from jax_ref.aten._axes import Axes
from jax_ref.aten._arrays import Ints
from jax_ref.aten import activation_backwards as activation_backwards
from jax_ref.aten import activations as activations
from jax_ref.aten import attention as attention
from jax_ref.aten import comparisons as comparisons
from jax_ref.aten import complex_numbers as complex_numbers
from jax_ref.aten import convolutions as convolutions
from jax_ref.aten import ctc as ctc
from jax_ref.aten import factories as factories
from jax_ref.aten import factorizations as factorizations
from jax_ref.aten import grids as grids
from jax_ref.aten import indexing as indexing
from jax_ref.aten import layer_backwards as layer_backwards
from jax_ref.aten import loss_backwards as loss_backwards
from jax_ref.aten import losses as losses
from jax_ref.aten import normalization as normalization
from jax_ref.aten import padding as padding
from jax_ref.aten import pointwise as pointwise
from jax_ref.aten import polynomials as polynomials
from jax_ref.aten import pooling as pooling
from jax_ref.aten import pooling_backwards as pooling_backwards
from jax_ref.aten import products as products
from jax_ref.aten import quantization as quantization
from jax_ref.aten import reductions as reductions
from jax_ref.aten import resampling_backwards as resampling_backwards
from jax_ref.aten import rounding as rounding
from jax_ref.aten import scans as scans
from jax_ref.aten import segments as segments
from jax_ref.aten import special as special
from jax_ref.aten import upsampling as upsampling
from jax_ref.aten import view_backwards as view_backwards
from jax_ref.aten import views as views
from jax_ref.aten._registry import Operators
from jax_ref.aten.activation_backwards import _log_softmax_backward_data as _log_softmax_backward_data
from jax_ref.aten.activation_backwards import _prelu_kernel_backward as _prelu_kernel_backward
from jax_ref.aten.activation_backwards import _softmax_backward_data as _softmax_backward_data
from jax_ref.aten.activation_backwards import elu_backward as elu_backward
from jax_ref.aten.activation_backwards import gelu_backward as gelu_backward
from jax_ref.aten.activation_backwards import glu_backward as glu_backward
from jax_ref.aten.activation_backwards import hardshrink_backward as hardshrink_backward
from jax_ref.aten.activation_backwards import hardswish_backward as hardswish_backward
from jax_ref.aten.activation_backwards import hardtanh_backward as hardtanh_backward
from jax_ref.aten.activation_backwards import leaky_relu_backward as leaky_relu_backward
from jax_ref.aten.activation_backwards import log_sigmoid_backward as log_sigmoid_backward
from jax_ref.aten.activation_backwards import logit_backward as logit_backward
from jax_ref.aten.activation_backwards import mish_backward as mish_backward
from jax_ref.aten.activation_backwards import rrelu_with_noise_backward as rrelu_with_noise_backward
from jax_ref.aten.activation_backwards import sigmoid_backward as sigmoid_backward
from jax_ref.aten.activation_backwards import silu_backward as silu_backward
from jax_ref.aten.activation_backwards import softplus_backward as softplus_backward
from jax_ref.aten.activation_backwards import softshrink_backward as softshrink_backward
from jax_ref.aten.activation_backwards import tanh_backward as tanh_backward
from jax_ref.aten.activation_backwards import threshold_backward as threshold_backward
from jax_ref.aten.activations import _masked_softmax as _masked_softmax
from jax_ref.aten.activations import _prelu_kernel as _prelu_kernel
from jax_ref.aten.activations import celu as celu
from jax_ref.aten.activations import elu as elu
from jax_ref.aten.activations import gelu as gelu
from jax_ref.aten.activations import glu as glu
from jax_ref.aten.activations import hardshrink as hardshrink
from jax_ref.aten.activations import hardsigmoid as hardsigmoid
from jax_ref.aten.activations import hardswish as hardswish
from jax_ref.aten.activations import hardtanh as hardtanh
from jax_ref.aten.activations import leaky_relu as leaky_relu
from jax_ref.aten.activations import log_sigmoid as log_sigmoid
from jax_ref.aten.activations import log_sigmoid_forward as log_sigmoid_forward
from jax_ref.aten.activations import mish as mish
from jax_ref.aten.activations import prelu as prelu
from jax_ref.aten.activations import relu as relu
from jax_ref.aten.activations import relu6 as relu6
from jax_ref.aten.activations import rrelu_with_noise as rrelu_with_noise
from jax_ref.aten.activations import rrelu_with_noise_functional as rrelu_with_noise_functional
from jax_ref.aten.activations import selu as selu
from jax_ref.aten.activations import silu as silu
from jax_ref.aten.activations import softplus as softplus
from jax_ref.aten.activations import softshrink as softshrink
from jax_ref.aten.activations import threshold as threshold
from jax_ref.aten.attention import _safe_softmax as _safe_softmax
from jax_ref.aten.attention import _scaled_dot_product_attention_math as _scaled_dot_product_attention_math
from jax_ref.aten.attention import _scaled_dot_product_flash_attention_for_cpu as _scaled_dot_product_flash_attention_for_cpu
from jax_ref.aten.attention import scaled_dot_product_attention as scaled_dot_product_attention
from jax_ref.aten.comparisons import allclose as allclose
from jax_ref.aten.comparisons import bitwise_and as bitwise_and
from jax_ref.aten.comparisons import bitwise_left_shift as bitwise_left_shift
from jax_ref.aten.comparisons import bitwise_not as bitwise_not
from jax_ref.aten.comparisons import bitwise_or as bitwise_or
from jax_ref.aten.comparisons import bitwise_right_shift as bitwise_right_shift
from jax_ref.aten.comparisons import bitwise_xor as bitwise_xor
from jax_ref.aten.comparisons import eq as eq
from jax_ref.aten.comparisons import equal as equal
from jax_ref.aten.comparisons import ge as ge
from jax_ref.aten.comparisons import gt as gt
from jax_ref.aten.comparisons import isclose as isclose
from jax_ref.aten.comparisons import isfinite as isfinite
from jax_ref.aten.comparisons import isinf as isinf
from jax_ref.aten.comparisons import isnan as isnan
from jax_ref.aten.comparisons import isneginf as isneginf
from jax_ref.aten.comparisons import isposinf as isposinf
from jax_ref.aten.comparisons import isreal as isreal
from jax_ref.aten.comparisons import le as le
from jax_ref.aten.comparisons import logical_and as logical_and
from jax_ref.aten.comparisons import logical_not as logical_not
from jax_ref.aten.comparisons import logical_or as logical_or
from jax_ref.aten.comparisons import logical_xor as logical_xor
from jax_ref.aten.comparisons import lt as lt
from jax_ref.aten.comparisons import ne as ne
from jax_ref.aten.complex_numbers import _fft_c2c as _fft_c2c
from jax_ref.aten.complex_numbers import _fft_c2r as _fft_c2r
from jax_ref.aten.complex_numbers import _fft_r2c as _fft_r2c
from jax_ref.aten.complex_numbers import angle as angle
from jax_ref.aten.complex_numbers import complex as complex
from jax_ref.aten.complex_numbers import conj as conj
from jax_ref.aten.complex_numbers import imag as imag
from jax_ref.aten.complex_numbers import polar as polar
from jax_ref.aten.complex_numbers import real as real
from jax_ref.aten.complex_numbers import view_as_complex as view_as_complex
from jax_ref.aten.complex_numbers import view_as_real as view_as_real
from jax_ref.aten.convolutions import _conv_depthwise2d as _conv_depthwise2d
from jax_ref.aten.convolutions import _slow_conv2d_forward as _slow_conv2d_forward
from jax_ref.aten.convolutions import col2im as col2im
from jax_ref.aten.convolutions import conv_depthwise3d as conv_depthwise3d
from jax_ref.aten.convolutions import conv_tbc as conv_tbc
from jax_ref.aten.convolutions import convolution as convolution
from jax_ref.aten.convolutions import im2col as im2col
from jax_ref.aten.convolutions import slow_conv3d as slow_conv3d
from jax_ref.aten.convolutions import slow_conv3d_forward as slow_conv3d_forward
from jax_ref.aten.convolutions import slow_conv_dilated2d as slow_conv_dilated2d
from jax_ref.aten.convolutions import slow_conv_dilated3d as slow_conv_dilated3d
from jax_ref.aten.convolutions import slow_conv_transpose2d as slow_conv_transpose2d
from jax_ref.aten.convolutions import slow_conv_transpose3d as slow_conv_transpose3d
from jax_ref.aten.convolutions import thnn_conv2d as thnn_conv2d
from jax_ref.aten.ctc import _ctc_loss as _ctc_loss
from jax_ref.aten.ctc import _ctc_loss_backward as _ctc_loss_backward
from jax_ref.aten.ctc import ctc_loss as ctc_loss
from jax_ref.aten.factories import arange as arange
from jax_ref.aten.factories import broadcast_tensors as broadcast_tensors
from jax_ref.aten.factories import cartesian_prod as cartesian_prod
from jax_ref.aten.factories import eye as eye
from jax_ref.aten.factories import fill as fill
from jax_ref.aten.factories import full as full
from jax_ref.aten.factories import full_like as full_like
from jax_ref.aten.factories import linspace as linspace
from jax_ref.aten.factories import logspace as logspace
from jax_ref.aten.factories import meshgrid as meshgrid
from jax_ref.aten.factories import new_full as new_full
from jax_ref.aten.factories import new_ones as new_ones
from jax_ref.aten.factories import new_zeros as new_zeros
from jax_ref.aten.factories import ones as ones
from jax_ref.aten.factories import ones_like as ones_like
from jax_ref.aten.factories import scalar_tensor as scalar_tensor
from jax_ref.aten.factories import vander as vander
from jax_ref.aten.factories import zero as zero
from jax_ref.aten.factories import zeros as zeros
from jax_ref.aten.factories import zeros_like as zeros_like
from jax_ref.aten.factorizations import _linalg_det as _linalg_det
from jax_ref.aten.factorizations import _linalg_eigh as _linalg_eigh
from jax_ref.aten.factorizations import _linalg_slogdet as _linalg_slogdet
from jax_ref.aten.factorizations import _linalg_solve_ex as _linalg_solve_ex
from jax_ref.aten.factorizations import _linalg_svd as _linalg_svd
from jax_ref.aten.factorizations import cholesky as cholesky
from jax_ref.aten.factorizations import cholesky_inverse as cholesky_inverse
from jax_ref.aten.factorizations import cholesky_solve as cholesky_solve
from jax_ref.aten.factorizations import inverse as inverse
from jax_ref.aten.factorizations import linalg_cholesky_ex as linalg_cholesky_ex
from jax_ref.aten.factorizations import linalg_eig as linalg_eig
from jax_ref.aten.factorizations import linalg_eigvals as linalg_eigvals
from jax_ref.aten.factorizations import linalg_householder_product as linalg_householder_product
from jax_ref.aten.factorizations import linalg_inv_ex as linalg_inv_ex
from jax_ref.aten.factorizations import linalg_lstsq as linalg_lstsq
from jax_ref.aten.factorizations import linalg_lu as linalg_lu
from jax_ref.aten.factorizations import linalg_lu_factor_ex as linalg_lu_factor_ex
from jax_ref.aten.factorizations import linalg_lu_solve as linalg_lu_solve
from jax_ref.aten.factorizations import linalg_matrix_exp as linalg_matrix_exp
from jax_ref.aten.factorizations import linalg_pinv as linalg_pinv
from jax_ref.aten.factorizations import linalg_qr as linalg_qr
from jax_ref.aten.factorizations import linalg_solve as linalg_solve
from jax_ref.aten.factorizations import linalg_solve_triangular as linalg_solve_triangular
from jax_ref.aten.factorizations import lu_unpack as lu_unpack
from jax_ref.aten.factorizations import ormqr as ormqr
from jax_ref.aten.factorizations import triangular_solve as triangular_solve
from jax_ref.aten.grids import affine_grid_generator as affine_grid_generator
from jax_ref.aten.grids import channel_shuffle as channel_shuffle
from jax_ref.aten.grids import grid_sampler as grid_sampler
from jax_ref.aten.grids import grid_sampler_2d as grid_sampler_2d
from jax_ref.aten.grids import grid_sampler_3d as grid_sampler_3d
from jax_ref.aten.grids import native_channel_shuffle as native_channel_shuffle
from jax_ref.aten.grids import pixel_shuffle as pixel_shuffle
from jax_ref.aten.grids import pixel_unshuffle as pixel_unshuffle
from jax_ref.aten.indexing import _index_put_impl as _index_put_impl
from jax_ref.aten.indexing import _unsafe_masked_index as _unsafe_masked_index
from jax_ref.aten.indexing import _unsafe_masked_index_put_accumulate as _unsafe_masked_index_put_accumulate
from jax_ref.aten.indexing import embedding as embedding
from jax_ref.aten.indexing import gather as gather
from jax_ref.aten.indexing import index as index
from jax_ref.aten.indexing import index_add as index_add
from jax_ref.aten.indexing import index_copy as index_copy
from jax_ref.aten.indexing import index_fill as index_fill
from jax_ref.aten.indexing import index_put as index_put
from jax_ref.aten.indexing import index_reduce as index_reduce
from jax_ref.aten.indexing import index_select as index_select
from jax_ref.aten.indexing import masked_fill as masked_fill
from jax_ref.aten.indexing import masked_scatter as masked_scatter
from jax_ref.aten.indexing import masked_select as masked_select
from jax_ref.aten.indexing import nonzero as nonzero
from jax_ref.aten.indexing import put as put
from jax_ref.aten.indexing import scatter_add as scatter_add
from jax_ref.aten.indexing import scatter_reduce as scatter_reduce
from jax_ref.aten.indexing import take as take
from jax_ref.aten.layer_backwards import _fused_rms_norm_backward as _fused_rms_norm_backward
from jax_ref.aten.layer_backwards import _scaled_dot_product_flash_attention_for_cpu_backward as _scaled_dot_product_flash_attention_for_cpu_backward
from jax_ref.aten.layer_backwards import _slow_conv2d_backward as _slow_conv2d_backward
from jax_ref.aten.layer_backwards import batch_norm_backward as batch_norm_backward
from jax_ref.aten.layer_backwards import conv_tbc_backward as conv_tbc_backward
from jax_ref.aten.layer_backwards import convolution_backward as convolution_backward
from jax_ref.aten.layer_backwards import native_batch_norm_backward as native_batch_norm_backward
from jax_ref.aten.layer_backwards import native_dropout_backward as native_dropout_backward
from jax_ref.aten.layer_backwards import native_group_norm_backward as native_group_norm_backward
from jax_ref.aten.layer_backwards import native_layer_norm_backward as native_layer_norm_backward
from jax_ref.aten.loss_backwards import binary_cross_entropy_backward as binary_cross_entropy_backward
from jax_ref.aten.loss_backwards import huber_loss_backward as huber_loss_backward
from jax_ref.aten.loss_backwards import mse_loss_backward as mse_loss_backward
from jax_ref.aten.loss_backwards import multi_margin_loss_backward as multi_margin_loss_backward
from jax_ref.aten.loss_backwards import multilabel_margin_loss_backward as multilabel_margin_loss_backward
from jax_ref.aten.loss_backwards import nll_loss2d_backward as nll_loss2d_backward
from jax_ref.aten.loss_backwards import nll_loss_backward as nll_loss_backward
from jax_ref.aten.loss_backwards import smooth_l1_loss_backward as smooth_l1_loss_backward
from jax_ref.aten.loss_backwards import soft_margin_loss_backward as soft_margin_loss_backward
from jax_ref.aten.losses import binary_cross_entropy as binary_cross_entropy
from jax_ref.aten.losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from jax_ref.aten.losses import cosine_embedding_loss as cosine_embedding_loss
from jax_ref.aten.losses import cosine_similarity as cosine_similarity
from jax_ref.aten.losses import cross_entropy_loss as cross_entropy_loss
from jax_ref.aten.losses import hinge_embedding_loss as hinge_embedding_loss
from jax_ref.aten.losses import huber_loss as huber_loss
from jax_ref.aten.losses import kl_div as kl_div
from jax_ref.aten.losses import l1_loss as l1_loss
from jax_ref.aten.losses import margin_ranking_loss as margin_ranking_loss
from jax_ref.aten.losses import mse_loss as mse_loss
from jax_ref.aten.losses import multi_margin_loss as multi_margin_loss
from jax_ref.aten.losses import multilabel_margin_loss as multilabel_margin_loss
from jax_ref.aten.losses import multilabel_margin_loss_forward as multilabel_margin_loss_forward
from jax_ref.aten.losses import nll_loss as nll_loss
from jax_ref.aten.losses import nll_loss2d as nll_loss2d
from jax_ref.aten.losses import nll_loss2d_forward as nll_loss2d_forward
from jax_ref.aten.losses import nll_loss_forward as nll_loss_forward
from jax_ref.aten.losses import nll_loss_nd as nll_loss_nd
from jax_ref.aten.losses import pairwise_distance as pairwise_distance
from jax_ref.aten.losses import poisson_nll_loss as poisson_nll_loss
from jax_ref.aten.losses import smooth_l1_loss as smooth_l1_loss
from jax_ref.aten.losses import soft_margin_loss as soft_margin_loss
from jax_ref.aten.losses import triplet_margin_loss as triplet_margin_loss
from jax_ref.aten.normalization import _batch_norm_no_update as _batch_norm_no_update
from jax_ref.aten.normalization import _batch_norm_with_update as _batch_norm_with_update
from jax_ref.aten.normalization import _batch_norm_with_update_functional as _batch_norm_with_update_functional
from jax_ref.aten.normalization import _fused_rms_norm as _fused_rms_norm
from jax_ref.aten.normalization import _native_batch_norm_legit_functional as _native_batch_norm_legit_functional
from jax_ref.aten.normalization import _native_batch_norm_legit_no_training as _native_batch_norm_legit_no_training
from jax_ref.aten.normalization import _weight_norm_interface as _weight_norm_interface
from jax_ref.aten.normalization import batch_norm as batch_norm
from jax_ref.aten.normalization import group_norm as group_norm
from jax_ref.aten.normalization import instance_norm as instance_norm
from jax_ref.aten.normalization import layer_norm as layer_norm
from jax_ref.aten.normalization import native_batch_norm as native_batch_norm
from jax_ref.aten.normalization import native_group_norm as native_group_norm
from jax_ref.aten.normalization import native_layer_norm as native_layer_norm
from jax_ref.aten.normalization import renorm as renorm
from jax_ref.aten.normalization import rms_norm as rms_norm
from jax_ref.aten.padding import _pad_circular as _pad_circular
from jax_ref.aten.padding import _pad_enum as _pad_enum
from jax_ref.aten.padding import constant_pad_nd as constant_pad_nd
from jax_ref.aten.padding import pad as pad
from jax_ref.aten.padding import reflection_pad1d as reflection_pad1d
from jax_ref.aten.padding import reflection_pad2d as reflection_pad2d
from jax_ref.aten.padding import reflection_pad3d as reflection_pad3d
from jax_ref.aten.padding import replication_pad1d as replication_pad1d
from jax_ref.aten.padding import replication_pad2d as replication_pad2d
from jax_ref.aten.padding import replication_pad3d as replication_pad3d
from jax_ref.aten.pointwise import abs as abs
from jax_ref.aten.pointwise import acos as acos
from jax_ref.aten.pointwise import acosh as acosh
from jax_ref.aten.pointwise import add as add
from jax_ref.aten.pointwise import addcdiv as addcdiv
from jax_ref.aten.pointwise import addcmul as addcmul
from jax_ref.aten.pointwise import asin as asin
from jax_ref.aten.pointwise import asinh as asinh
from jax_ref.aten.pointwise import atan as atan
from jax_ref.aten.pointwise import atan2 as atan2
from jax_ref.aten.pointwise import atanh as atanh
from jax_ref.aten.pointwise import clamp as clamp
from jax_ref.aten.pointwise import clamp_max as clamp_max
from jax_ref.aten.pointwise import clamp_min as clamp_min
from jax_ref.aten.pointwise import copysign as copysign
from jax_ref.aten.pointwise import cos as cos
from jax_ref.aten.pointwise import cosh as cosh
from jax_ref.aten.pointwise import deg2rad as deg2rad
from jax_ref.aten.pointwise import div as div
from jax_ref.aten.pointwise import exp as exp
from jax_ref.aten.pointwise import exp2 as exp2
from jax_ref.aten.pointwise import expm1 as expm1
from jax_ref.aten.pointwise import fmax as fmax
from jax_ref.aten.pointwise import fmin as fmin
from jax_ref.aten.pointwise import hypot as hypot
from jax_ref.aten.pointwise import ldexp as ldexp
from jax_ref.aten.pointwise import lerp as lerp
from jax_ref.aten.pointwise import log as log
from jax_ref.aten.pointwise import log10 as log10
from jax_ref.aten.pointwise import log1p as log1p
from jax_ref.aten.pointwise import log2 as log2
from jax_ref.aten.pointwise import maximum as maximum
from jax_ref.aten.pointwise import minimum as minimum
from jax_ref.aten.pointwise import mul as mul
from jax_ref.aten.pointwise import neg as neg
from jax_ref.aten.pointwise import positive as positive
from jax_ref.aten.pointwise import pow as pow
from jax_ref.aten.pointwise import rad2deg as rad2deg
from jax_ref.aten.pointwise import reciprocal as reciprocal
from jax_ref.aten.pointwise import rsqrt as rsqrt
from jax_ref.aten.pointwise import rsub as rsub
from jax_ref.aten.pointwise import sgn as sgn
from jax_ref.aten.pointwise import sign as sign
from jax_ref.aten.pointwise import signbit as signbit
from jax_ref.aten.pointwise import sin as sin
from jax_ref.aten.pointwise import sinh as sinh
from jax_ref.aten.pointwise import sqrt as sqrt
from jax_ref.aten.pointwise import square as square
from jax_ref.aten.pointwise import sub as sub
from jax_ref.aten.pointwise import tan as tan
from jax_ref.aten.pointwise import tanh as tanh
from jax_ref.aten.pointwise import where as where
from jax_ref.aten.polynomials import special_chebyshev_polynomial_t as special_chebyshev_polynomial_t
from jax_ref.aten.polynomials import special_chebyshev_polynomial_u as special_chebyshev_polynomial_u
from jax_ref.aten.polynomials import special_chebyshev_polynomial_v as special_chebyshev_polynomial_v
from jax_ref.aten.polynomials import special_chebyshev_polynomial_w as special_chebyshev_polynomial_w
from jax_ref.aten.polynomials import special_hermite_polynomial_h as special_hermite_polynomial_h
from jax_ref.aten.polynomials import special_hermite_polynomial_he as special_hermite_polynomial_he
from jax_ref.aten.polynomials import special_laguerre_polynomial_l as special_laguerre_polynomial_l
from jax_ref.aten.polynomials import special_legendre_polynomial_p as special_legendre_polynomial_p
from jax_ref.aten.polynomials import special_shifted_chebyshev_polynomial_t as special_shifted_chebyshev_polynomial_t
from jax_ref.aten.polynomials import special_shifted_chebyshev_polynomial_u as special_shifted_chebyshev_polynomial_u
from jax_ref.aten.polynomials import special_shifted_chebyshev_polynomial_v as special_shifted_chebyshev_polynomial_v
from jax_ref.aten.polynomials import special_shifted_chebyshev_polynomial_w as special_shifted_chebyshev_polynomial_w
from jax_ref.aten.pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from jax_ref.aten.pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from jax_ref.aten.pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from jax_ref.aten.pooling import adaptive_max_pool1d as adaptive_max_pool1d
from jax_ref.aten.pooling import adaptive_max_pool2d as adaptive_max_pool2d
from jax_ref.aten.pooling import adaptive_max_pool3d as adaptive_max_pool3d
from jax_ref.aten.pooling import avg_pool1d as avg_pool1d
from jax_ref.aten.pooling import avg_pool2d as avg_pool2d
from jax_ref.aten.pooling import avg_pool3d as avg_pool3d
from jax_ref.aten.pooling import fractional_max_pool2d as fractional_max_pool2d
from jax_ref.aten.pooling import fractional_max_pool3d as fractional_max_pool3d
from jax_ref.aten.pooling import max_pool1d as max_pool1d
from jax_ref.aten.pooling import max_pool1d_with_indices as max_pool1d_with_indices
from jax_ref.aten.pooling import max_pool2d as max_pool2d
from jax_ref.aten.pooling import max_pool2d_with_indices as max_pool2d_with_indices
from jax_ref.aten.pooling import max_pool3d as max_pool3d
from jax_ref.aten.pooling import max_pool3d_with_indices as max_pool3d_with_indices
from jax_ref.aten.pooling import max_unpool2d as max_unpool2d
from jax_ref.aten.pooling import max_unpool3d as max_unpool3d
from jax_ref.aten.pooling_backwards import _adaptive_avg_pool2d_backward as _adaptive_avg_pool2d_backward
from jax_ref.aten.pooling_backwards import _adaptive_avg_pool3d_backward as _adaptive_avg_pool3d_backward
from jax_ref.aten.pooling_backwards import adaptive_max_pool2d_backward as adaptive_max_pool2d_backward
from jax_ref.aten.pooling_backwards import adaptive_max_pool3d_backward as adaptive_max_pool3d_backward
from jax_ref.aten.pooling_backwards import avg_pool2d_backward as avg_pool2d_backward
from jax_ref.aten.pooling_backwards import avg_pool3d_backward as avg_pool3d_backward
from jax_ref.aten.pooling_backwards import fractional_max_pool2d_backward as fractional_max_pool2d_backward
from jax_ref.aten.pooling_backwards import fractional_max_pool3d_backward as fractional_max_pool3d_backward
from jax_ref.aten.pooling_backwards import max_pool2d_backward as max_pool2d_backward
from jax_ref.aten.pooling_backwards import max_pool2d_with_indices_backward as max_pool2d_with_indices_backward
from jax_ref.aten.pooling_backwards import max_pool3d_with_indices_backward as max_pool3d_with_indices_backward
from jax_ref.aten.products import _cdist_forward as _cdist_forward
from jax_ref.aten.products import _euclidean_dist as _euclidean_dist
from jax_ref.aten.products import _pdist_forward as _pdist_forward
from jax_ref.aten.products import _trilinear as _trilinear
from jax_ref.aten.products import addbmm as addbmm
from jax_ref.aten.products import addmm as addmm
from jax_ref.aten.products import addmv as addmv
from jax_ref.aten.products import addr as addr
from jax_ref.aten.products import baddbmm as baddbmm
from jax_ref.aten.products import bmm as bmm
from jax_ref.aten.products import dot as dot
from jax_ref.aten.products import kron as kron
from jax_ref.aten.products import linalg_cross as linalg_cross
from jax_ref.aten.products import linalg_matrix_power as linalg_matrix_power
from jax_ref.aten.products import linear as linear
from jax_ref.aten.products import matmul as matmul
from jax_ref.aten.products import mm as mm
from jax_ref.aten.products import mv as mv
from jax_ref.aten.products import outer as outer
from jax_ref.aten.products import vdot as vdot
from jax_ref.aten.quantization import _fake_quantize_per_tensor_affine_cachemask_tensor_qparams as _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
from jax_ref.aten.quantization import fake_quantize_per_channel_affine_cachemask as fake_quantize_per_channel_affine_cachemask
from jax_ref.aten.quantization import fake_quantize_per_tensor_affine_cachemask as fake_quantize_per_tensor_affine_cachemask
from jax_ref.aten.reductions import _log_softmax as _log_softmax
from jax_ref.aten.reductions import _softmax as _softmax
from jax_ref.aten.reductions import all as all
from jax_ref.aten.reductions import amax as amax
from jax_ref.aten.reductions import amin as amin
from jax_ref.aten.reductions import aminmax as aminmax
from jax_ref.aten.reductions import any as any
from jax_ref.aten.reductions import argmax as argmax
from jax_ref.aten.reductions import argmin as argmin
from jax_ref.aten.reductions import count_nonzero as count_nonzero
from jax_ref.aten.reductions import dist as dist
from jax_ref.aten.reductions import linalg_vector_norm as linalg_vector_norm
from jax_ref.aten.reductions import log_softmax as log_softmax
from jax_ref.aten.reductions import logsumexp as logsumexp
from jax_ref.aten.reductions import mean as mean
from jax_ref.aten.reductions import nanmean as nanmean
from jax_ref.aten.reductions import nansum as nansum
from jax_ref.aten.reductions import norm as norm
from jax_ref.aten.reductions import prod as prod
from jax_ref.aten.reductions import softmax as softmax
from jax_ref.aten.reductions import sum as sum
from jax_ref.aten.reductions import trace as trace
from jax_ref.aten.resampling_backwards import affine_grid_generator_backward as affine_grid_generator_backward
from jax_ref.aten.resampling_backwards import upsample_linear1d_backward as upsample_linear1d_backward
from jax_ref.aten.resampling_backwards import upsample_trilinear3d_backward as upsample_trilinear3d_backward
from jax_ref.aten.rounding import ceil as ceil
from jax_ref.aten.rounding import floor as floor
from jax_ref.aten.rounding import floor_divide as floor_divide
from jax_ref.aten.rounding import fmod as fmod
from jax_ref.aten.rounding import frac as frac
from jax_ref.aten.rounding import frexp as frexp
from jax_ref.aten.rounding import heaviside as heaviside
from jax_ref.aten.rounding import nan_to_num as nan_to_num
from jax_ref.aten.rounding import nextafter as nextafter
from jax_ref.aten.rounding import remainder as remainder
from jax_ref.aten.rounding import round as round
from jax_ref.aten.rounding import trunc as trunc
from jax_ref.aten.scans import argsort as argsort
from jax_ref.aten.scans import bucketize as bucketize
from jax_ref.aten.scans import cummax as cummax
from jax_ref.aten.scans import cummin as cummin
from jax_ref.aten.scans import cumprod as cumprod
from jax_ref.aten.scans import cumsum as cumsum
from jax_ref.aten.scans import kthvalue as kthvalue
from jax_ref.aten.scans import logcumsumexp as logcumsumexp
from jax_ref.aten.scans import median as median
from jax_ref.aten.scans import mode as mode
from jax_ref.aten.scans import msort as msort
from jax_ref.aten.scans import nanmedian as nanmedian
from jax_ref.aten.scans import searchsorted as searchsorted
from jax_ref.aten.scans import sort as sort
from jax_ref.aten.scans import topk as topk
from jax_ref.aten.segments import _embedding_bag as _embedding_bag
from jax_ref.aten.segments import _pack_padded_sequence as _pack_padded_sequence
from jax_ref.aten.segments import segment_reduce as segment_reduce
from jax_ref.aten.special import digamma as digamma
from jax_ref.aten.special import erf as erf
from jax_ref.aten.special import erfc as erfc
from jax_ref.aten.special import erfinv as erfinv
from jax_ref.aten.special import i0 as i0
from jax_ref.aten.special import igamma as igamma
from jax_ref.aten.special import igammac as igammac
from jax_ref.aten.special import lgamma as lgamma
from jax_ref.aten.special import logaddexp as logaddexp
from jax_ref.aten.special import logaddexp2 as logaddexp2
from jax_ref.aten.special import logit as logit
from jax_ref.aten.special import mvlgamma as mvlgamma
from jax_ref.aten.special import polygamma as polygamma
from jax_ref.aten.special import sigmoid as sigmoid
from jax_ref.aten.special import sinc as sinc
from jax_ref.aten.special import special_entr as special_entr
from jax_ref.aten.special import special_erfcx as special_erfcx
from jax_ref.aten.special import special_i0e as special_i0e
from jax_ref.aten.special import special_i1 as special_i1
from jax_ref.aten.special import special_i1e as special_i1e
from jax_ref.aten.special import special_log_ndtr as special_log_ndtr
from jax_ref.aten.special import special_ndtri as special_ndtri
from jax_ref.aten.special import special_xlog1py as special_xlog1py
from jax_ref.aten.special import special_zeta as special_zeta
from jax_ref.aten.special import xlogy as xlogy
from jax_ref.aten.view_backwards import _cdist_backward as _cdist_backward
from jax_ref.aten.view_backwards import _pdist_backward as _pdist_backward
from jax_ref.aten.view_backwards import copy as copy
from jax_ref.aten.view_backwards import diagonal_backward as diagonal_backward
from jax_ref.aten.view_backwards import embedding_dense_backward as embedding_dense_backward
from jax_ref.aten.view_backwards import masked_scatter_backward as masked_scatter_backward
from jax_ref.aten.view_backwards import select_backward as select_backward
from jax_ref.aten.view_backwards import slice_backward as slice_backward
from jax_ref.aten.view_backwards import unfold_backward as unfold_backward
from jax_ref.aten.views import _reshape_alias as _reshape_alias
from jax_ref.aten.views import _to_copy as _to_copy
from jax_ref.aten.views import as_strided as as_strided
from jax_ref.aten.views import as_strided_scatter as as_strided_scatter
from jax_ref.aten.views import block_diag as block_diag
from jax_ref.aten.views import cat as cat
from jax_ref.aten.views import chunk as chunk
from jax_ref.aten.views import clone as clone
from jax_ref.aten.views import detach as detach
from jax_ref.aten.views import diag as diag
from jax_ref.aten.views import diag_embed as diag_embed
from jax_ref.aten.views import diagonal as diagonal
from jax_ref.aten.views import diagonal_scatter as diagonal_scatter
from jax_ref.aten.views import expand as expand
from jax_ref.aten.views import flatten as flatten
from jax_ref.aten.views import flip as flip
from jax_ref.aten.views import movedim as movedim
from jax_ref.aten.views import narrow as narrow
from jax_ref.aten.views import permute as permute
from jax_ref.aten.views import repeat as repeat
from jax_ref.aten.views import reshape as reshape
from jax_ref.aten.views import roll as roll
from jax_ref.aten.views import rot90 as rot90
from jax_ref.aten.views import select as select
from jax_ref.aten.views import select_scatter as select_scatter
from jax_ref.aten.views import slice_inverse as slice_inverse
from jax_ref.aten.views import slice_scatter as slice_scatter
from jax_ref.aten.views import split as split
from jax_ref.aten.views import split_with_sizes as split_with_sizes
from jax_ref.aten.views import squeeze as squeeze
from jax_ref.aten.views import stack as stack
from jax_ref.aten.views import t as t
from jax_ref.aten.views import transpose as transpose
from jax_ref.aten.views import tril as tril
from jax_ref.aten.views import triu as triu
from jax_ref.aten.views import unbind as unbind
from jax_ref.aten.views import unflatten as unflatten
from jax_ref.aten.views import unfold as unfold
from jax_ref.aten.views import unsqueeze as unsqueeze
from jax_ref.aten.views import view as view

def _adaptive_avg_pool2d(self: ArrayLike, output_size: Ints) -> Array: ...
def _adaptive_avg_pool3d(self: ArrayLike, output_size: Ints) -> Array: ...
def _conj(self: ArrayLike) -> Array: ...
def _conj_copy(self: ArrayLike) -> Array: ...
def _conj_physical(self: ArrayLike) -> Array: ...
@overload
def _convolution(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None, stride: Ints, padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool, allow_tf32: bool) -> Array: ...
@overload
def _convolution(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None, stride: Ints, padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool) -> Array: ...
def _lazy_clone(self: ArrayLike) -> Array: ...
@overload
def _native_batch_norm_legit(input: ArrayLike, weight: ArrayLike | None, bias: ArrayLike | None, running_mean: ArrayLike | None, running_var: ArrayLike | None, training: bool, momentum: float, eps: float) -> tuple[Array, Array, Array]: ...
@overload
def _native_batch_norm_legit(input: ArrayLike, weight: ArrayLike | None, bias: ArrayLike | None, training: bool, momentum: float, eps: float) -> tuple[Array, Array, Array]: ...
def _neg_view(self: ArrayLike) -> Array: ...
def _reshape_copy(self: ArrayLike, size: Sequence[int]) -> Array: ...
def _unsafe_index(self: ArrayLike, indices: Sequence[ArrayLike | None]) -> Array: ...
def _unsafe_index_put(self: ArrayLike, indices: Sequence[ArrayLike | None], values: ArrayLike, accumulate: bool = False) -> Array: ...
def _unsafe_view(self: ArrayLike, size: Sequence[int]) -> Array: ...
@overload
def _upsample_bicubic2d_aa(self: ArrayLike, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_bicubic2d_aa(input: ArrayLike, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None) -> Array: ...
def _upsample_bicubic2d_aa_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_bilinear2d_aa(self: ArrayLike, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_bilinear2d_aa(input: ArrayLike, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None) -> Array: ...
def _upsample_bilinear2d_aa_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_lanczos2d_aa(self: ArrayLike, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_lanczos2d_aa(input: ArrayLike, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None) -> Array: ...
def _upsample_lanczos2d_aa_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_nearest_exact1d(self: ArrayLike, output_size: Sequence[int], scales: float | None = None) -> Array: ...
@overload
def _upsample_nearest_exact1d(input: ArrayLike, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> Array: ...
def _upsample_nearest_exact1d_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], scales: float | None = None) -> Array: ...
@overload
def _upsample_nearest_exact2d(self: ArrayLike, output_size: Sequence[int], scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_nearest_exact2d(input: ArrayLike, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> Array: ...
def _upsample_nearest_exact2d_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_nearest_exact3d(self: ArrayLike, output_size: Sequence[int], scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def _upsample_nearest_exact3d(input: ArrayLike, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> Array: ...
def _upsample_nearest_exact3d_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
def alias(self: ArrayLike) -> Array: ...
def alias_copy(self: ArrayLike) -> Array: ...
def as_strided_copy(self: ArrayLike, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Array: ...
def concat(tensors: Sequence[ArrayLike], dim: int = 0) -> Array: ...
def conj_physical(self: ArrayLike) -> Array: ...
def contiguous(self: ArrayLike) -> Array: ...
def conv1d(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Ints = 1, padding: Ints | str = 0, dilation: Ints = 1, groups: int = 1) -> Array: ...
def conv2d(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Ints = 1, padding: Ints | str = 0, dilation: Ints = 1, groups: int = 1) -> Array: ...
def conv3d(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Ints = 1, padding: Ints | str = 0, dilation: Ints = 1, groups: int = 1) -> Array: ...
def conv_transpose1d(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Ints = 1, padding: Ints = 0, output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1) -> Array: ...
def conv_transpose2d(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Ints = 1, padding: Ints = 0, output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1) -> Array: ...
def conv_transpose3d(input: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Ints = 1, padding: Ints = 0, output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1) -> Array: ...
def detach_copy(self: ArrayLike) -> Array: ...
def diagonal_copy(self: ArrayLike, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array: ...
def expand_copy(self: ArrayLike, size: Sequence[int], *, implicit: bool = False) -> Array: ...
def grid_sampler_2d_backward(grad_output: ArrayLike, input: ArrayLike, grid: ArrayLike, interpolation_mode: int, padding_mode: int, align_corners: bool, output_mask: Sequence[bool]) -> tuple[Array | None, Array]: ...
def grid_sampler_3d_backward(grad_output: ArrayLike, input: ArrayLike, grid: ArrayLike, interpolation_mode: int, padding_mode: int, align_corners: bool, output_mask: Sequence[bool]) -> tuple[Array | None, Array]: ...
@overload
def isin(elements: ArrayLike, test_elements: ArrayLike, *, assume_unique: bool = False, invert: bool = False) -> Array: ...
@overload
def isin(elements: ArrayLike, test_element: ArrayLike, *, assume_unique: bool = False, invert: bool = False) -> Array: ...
@overload
def isin(element: ArrayLike, test_elements: ArrayLike, *, assume_unique: bool = False, invert: bool = False) -> Array: ...
def lift(self: ArrayLike) -> Array: ...
def lift_fresh(self: ArrayLike) -> Array: ...
@overload
def max(self: ArrayLike, dim: Any = None, keepdim: bool = False) -> Array | tuple[Array, Array]: ...
@overload
def max(self: ArrayLike, other: ArrayLike) -> Array: ...
@overload
def min(self: ArrayLike, dim: Any = None, keepdim: bool = False) -> Array | tuple[Array, Array]: ...
@overload
def min(self: ArrayLike, other: ArrayLike) -> Array: ...
def narrow_copy(self: ArrayLike, dim: int, start: int, length: int) -> Array: ...
def permute_copy(self: ArrayLike, dims: Sequence[int]) -> Array: ...
def reflection_pad1d_backward(grad_output: ArrayLike, self: ArrayLike, padding: Sequence[int]) -> Array: ...
def reflection_pad2d_backward(grad_output: ArrayLike, self: ArrayLike, padding: Sequence[int]) -> Array: ...
def reflection_pad3d_backward(grad_output: ArrayLike, self: ArrayLike, padding: Sequence[int]) -> Array: ...
def replication_pad1d_backward(grad_output: ArrayLike, self: ArrayLike, padding: Sequence[int]) -> Array: ...
def replication_pad2d_backward(grad_output: ArrayLike, self: ArrayLike, padding: Sequence[int]) -> Array: ...
def replication_pad3d_backward(grad_output: ArrayLike, self: ArrayLike, padding: Sequence[int]) -> Array: ...
@overload
def scatter(self: ArrayLike, dim: int, index: ArrayLike, src: ArrayLike = 0, *, reduce: str | None = None) -> Array: ...
@overload
def scatter(self: ArrayLike, dim: int, index: ArrayLike, value: ArrayLike, *, reduce: str | None = None) -> Array: ...
def select_copy(self: ArrayLike, dim: int, index: int) -> Array: ...
def slice(self: ArrayLike, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array: ...
def slice_copy(self: ArrayLike, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array: ...
def split_copy(self: ArrayLike, split_size: int | Sequence[int], dim: int = 0) -> tuple[Array, ...]: ...
def split_with_sizes_copy(self: ArrayLike, split_sizes: Sequence[int], dim: int = 0) -> tuple[Array, ...]: ...
def squeeze_copy(self: ArrayLike, dim: int | Sequence[int] | None = None) -> Array: ...
@overload
def std(self: ArrayLike, unbiased: bool = True) -> Array: ...
@overload
def std(self: ArrayLike, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False) -> Array: ...
@overload
def std(self: ArrayLike, dim: Axes = None, unbiased: bool = True, keepdim: bool = False) -> Array: ...
@overload
def std_mean(self: ArrayLike, unbiased: bool = True) -> tuple[Array, Array]: ...
@overload
def std_mean(self: ArrayLike, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None) -> tuple[Array, Array]: ...
def t_copy(self: ArrayLike) -> Array: ...
def transpose_copy(self: ArrayLike, dim0: int, dim1: int) -> Array: ...
def unbind_copy(self: ArrayLike, dim: int = 0) -> tuple[Array, ...]: ...
def unfold_copy(self: ArrayLike, dimension: int, size: int, step: int) -> Array: ...
def unsafe_chunk(self: ArrayLike, chunks: int, dim: int = 0) -> tuple[Array, ...]: ...
def unsafe_split(self: ArrayLike, split_size: int | Sequence[int], dim: int = 0) -> tuple[Array, ...]: ...
def unsafe_split_with_sizes(self: ArrayLike, split_sizes: Sequence[int], dim: int = 0) -> tuple[Array, ...]: ...
def unsqueeze_copy(self: ArrayLike, dim: int) -> Array: ...
@overload
def upsample_bicubic2d(self: ArrayLike, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_bicubic2d(input: ArrayLike, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None) -> Array: ...
def upsample_bicubic2d_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_bilinear2d(self: ArrayLike, output_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_bilinear2d(input: ArrayLike, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None) -> Array: ...
def upsample_bilinear2d_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_linear1d(self: ArrayLike, output_size: Sequence[int], align_corners: bool, scales: float | None = None) -> Array: ...
@overload
def upsample_linear1d(input: ArrayLike, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None) -> Array: ...
@overload
def upsample_nearest1d(self: ArrayLike, output_size: Sequence[int], scales: float | None = None) -> Array: ...
@overload
def upsample_nearest1d(input: ArrayLike, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> Array: ...
def upsample_nearest1d_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], scales: float | None = None) -> Array: ...
@overload
def upsample_nearest2d(self: ArrayLike, output_size: Sequence[int], scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_nearest2d(input: ArrayLike, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> Array: ...
def upsample_nearest2d_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_nearest3d(self: ArrayLike, output_size: Sequence[int], scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_nearest3d(input: ArrayLike, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> Array: ...
def upsample_nearest3d_backward(grad_output: ArrayLike, output_size: Sequence[int], input_size: Sequence[int], scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_trilinear3d(self: ArrayLike, output_size: Sequence[int], align_corners: bool, scales_d: float | None = None, scales_h: float | None = None, scales_w: float | None = None) -> Array: ...
@overload
def upsample_trilinear3d(input: ArrayLike, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None) -> Array: ...
@overload
def var(self: ArrayLike, unbiased: bool = True) -> Array: ...
@overload
def var(self: ArrayLike, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False) -> Array: ...
@overload
def var(self: ArrayLike, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None) -> Array: ...
@overload
def var_mean(self: ArrayLike, unbiased: bool = True) -> tuple[Array, Array]: ...
@overload
def var_mean(self: ArrayLike, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None) -> tuple[Array, Array]: ...
def view_as_complex_copy(self: ArrayLike) -> Array: ...
def view_as_real_copy(self: ArrayLike) -> Array: ...
def view_copy(self: ArrayLike, size: Sequence[int]) -> Array: ...

OPERATORS: Operators
