"""Layers: pooling, losses, normalisation, attention, recurrence, interpolation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from uses.table import batch_of_images, image, matrices, matrix, ramp, sequence, uses, volume


def filled(module: nn.Module) -> nn.Module:
    """The module with weights that do not depend on the generator's state."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter))
    return module.eval()


TRANSPOSED = filled(nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1))

uses(
    "pooling of sequences",
    sequence,
    avg=lambda x: F.avg_pool1d(x, 2),
    max=lambda x: F.max_pool1d(x, 2),
    max_indices=lambda x: F.max_pool1d(x, 2, return_indices=True),
    lp=lambda x: F.lp_pool1d(x.abs(), 2, 2),
    adaptive_avg=lambda x: F.adaptive_avg_pool1d(x, 2),
    adaptive_max=lambda x: F.adaptive_max_pool1d(x, 2),
    adaptive_max_indices=lambda x: F.adaptive_max_pool1d(x, 2, return_indices=True),
    unpool=lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
    unpool_to=lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2, output_size=x.shape),
)
uses(
    "pooling",
    image,
    avg=lambda x: F.avg_pool2d(x, 3, 2, 1),
    avg_uncounted=lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False, ceil_mode=True),
    max=lambda x: F.max_pool2d(x, 2),
    max_indices=lambda x: F.max_pool2d(x, 2, return_indices=True),
    max_dilated=lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    lp=lambda x: F.lp_pool2d(x.abs(), 2, 2),
    adaptive_avg=lambda x: F.adaptive_avg_pool2d(x, (2, None)),
    adaptive_max=lambda x: F.adaptive_max_pool2d(x, 2),
    adaptive_max_indices=lambda x: F.adaptive_max_pool2d(x, (1, 2), return_indices=True),
    fractional=lambda x: F.fractional_max_pool2d(x, 2, output_size=(2, 3), _random_samples=torch.full((2, 3, 2), 0.5)),
    fractional_ratio=lambda x: F.fractional_max_pool2d(
        x, 2, output_ratio=(0.6, 0.6), _random_samples=torch.full((2, 3, 2), 0.5)
    ),
    unpool_to=lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape),
)
uses(
    "pooling of even sides",
    lambda n: [ramp(2, 3, 2 * n, 2 * n + 2)],
    unpool=lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    unpool_module=lambda x: nn.MaxUnpool2d(2, stride=2)(*F.max_pool2d(x, 2, return_indices=True)),
)
uses(
    "pooling of channels_last",
    lambda n: [ramp(2, 3, 2 * n, 2 * n + 2).to(memory_format=torch.channels_last)],
    unpool=lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    adaptive_max=lambda x: F.adaptive_max_pool2d(x, 2),
    fractional=lambda x: F.fractional_max_pool2d(x, 2, output_size=(2, 3), _random_samples=torch.full((2, 3, 2), 0.5)),
)
uses(
    "pooling of batches",
    batch_of_images,
    avg=lambda x: F.avg_pool2d(x, 2),
    max=lambda x: F.max_pool2d(x, 2),
    adaptive_avg=lambda x: F.adaptive_avg_pool2d(x, 2),
    adaptive_max=lambda x: F.adaptive_max_pool2d(x, 2),
    fractional=lambda x: F.fractional_max_pool2d(
        x, 2, output_size=(2, 3), _random_samples=torch.full((x.size(0), 4, 2), 0.5)
    ),
    unpool=lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
)
uses(
    "pooling of volumes",
    volume,
    avg=lambda x: F.avg_pool3d(x, 2),
    max=lambda x: F.max_pool3d(x, 2),
    adaptive_avg=lambda x: F.adaptive_avg_pool3d(x, 2),
    adaptive_max=lambda x: F.adaptive_max_pool3d(x, 2),
    fractional=lambda x: F.fractional_max_pool3d(
        x, 2, output_size=(2, 2, 2), _random_samples=torch.full((2, 3, 3), 0.5)
    ),
    unpool=lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2, output_size=x.shape),
    lp=lambda x: F.lp_pool3d(x.abs(), 2, 2),
)
uses(
    "interpolation",
    image,
    nearest=lambda x: F.interpolate(x, scale_factor=2),
    nearest_exact=lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"),
    bilinear=lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    bicubic=lambda x: F.interpolate(x, size=(4, 4), mode="bicubic"),
    area=lambda x: F.interpolate(x, size=(3, 2), mode="area"),
    antialias=lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
    recompute=lambda x: F.interpolate(x, scale_factor=0.5, recompute_scale_factor=True),
    unfold=lambda x: F.unfold(x, 2),
    fold=lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2),
    channel_shuffle=lambda x: F.channel_shuffle(x, 3),
)
uses(
    "convolutions",
    image,
    conv=lambda x: F.conv2d(x, ramp(4, 3, 3, 3), stride=2, padding=1),
    same=lambda x: F.conv2d(x, ramp(4, 3, 3, 3), padding="same"),
    depthwise=lambda x: F.conv2d(x, ramp(3, 1, 3, 3), groups=3),
    transposed=lambda x: F.conv_transpose2d(x, ramp(3, 2, 2, 2), stride=2, output_padding=1),
    transposed_module=lambda x: TRANSPOSED(x, output_size=(2 * x.size(2), 2 * x.size(3))),
    conv_of_size=lambda x: F.conv2d(x, x[:, :, :2, :2]),
    lazy_same=lambda x: F.conv2d(x, ramp(4, 3, 2, 2), padding="same"),
)
uses(
    "convolutions of sequences",
    sequence,
    conv=lambda x: F.conv1d(x, ramp(2, 4, 3), padding=1),
    transposed=lambda x: F.conv_transpose1d(x, ramp(4, 2, 3)),
)
uses(
    "normalisation",
    image,
    batch=lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True),
    group=lambda x: F.group_norm(x, 3),
    instance=lambda x: F.instance_norm(x),
    instance_running=lambda x: F.instance_norm(x, torch.zeros(3), torch.ones(3), use_input_stats=False),
    layer=lambda x: F.layer_norm(x, x.shape[1:]),
    local_response=lambda x: F.local_response_norm(x, 3),
    normalize=lambda x: F.normalize(x, dim=2),
    rms=lambda x: F.rms_norm(x, x.shape[2:]),
    dropout2d=lambda x: F.dropout2d(x),
    alpha_dropout=lambda x: F.alpha_dropout(x, training=True),
    feature_alpha_dropout=lambda x: F.feature_alpha_dropout(x, training=True),
)
uses(
    "losses",
    matrices,
    binary=lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    binary_logits=lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid(), pos_weight=torch.ones(3)),
    cosine=lambda x, y: F.cosine_embedding_loss(x, y, torch.ones(x.size(0))),
    cross_entropy=lambda x, y: F.cross_entropy(x, torch.arange(x.size(0)) % 3, label_smoothing=0.1),
    cross_entropy_soft=lambda x, y: F.cross_entropy(x, y.softmax(1)),
    cross_entropy_ignored=lambda x, y: F.cross_entropy(x, torch.arange(x.size(0)) % 3, ignore_index=1),
    gaussian=lambda x, y: F.gaussian_nll_loss(x, y, torch.ones(x.shape)),
    hinge=lambda x, y: F.hinge_embedding_loss(x, y.sign()),
    huber=lambda x, y: F.huber_loss(x, y),
    kl_div=lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
    l1=lambda x, y: F.l1_loss(x, y),
    margin_ranking=lambda x, y: F.margin_ranking_loss(x, y, torch.ones(x.shape)),
    mse=lambda x, y: F.mse_loss(x, y, reduction="sum"),
    multi_margin=lambda x, y: F.multi_margin_loss(x, torch.arange(x.size(0)) % 3),
    multi_margin_each=lambda x, y: F.multi_margin_loss(x, torch.arange(x.size(0)) % 3, reduction="none"),
    multilabel_margin=lambda x, y: F.multilabel_margin_loss(x, torch.zeros(x.shape).long()),
    multilabel_margin_each=lambda x, y: F.multilabel_margin_loss(x, torch.zeros(x.shape).long(), reduction="none"),
    multilabel_soft_margin=lambda x, y: F.multilabel_soft_margin_loss(x, (y > 0).float()),
    nll=lambda x, y: F.nll_loss(x.log_softmax(1), torch.arange(x.size(0)) % 3, weight=torch.ones(3)),
    poisson=lambda x, y: F.poisson_nll_loss(x, y.abs()),
    poisson_full=lambda x, y: F.poisson_nll_loss(x, y.abs() * 4, full=True),
    smooth_l1=lambda x, y: F.smooth_l1_loss(x, y),
    soft_margin=lambda x, y: F.soft_margin_loss(x, y.sign()),
    triplet=lambda x, y: F.triplet_margin_loss(x, y, x + y),
    triplet_swap=lambda x, y: F.triplet_margin_with_distance_loss(x, y, x + y, swap=True),
)
uses(
    "sequence losses",
    lambda n: [ramp(n + 6, 2, 4).log_softmax(-1), torch.ones(2, 3, dtype=torch.long)],
    ctc=lambda x, y: F.ctc_loss(x, y, torch.full((2,), 6), torch.full((2,), 3)),
    ctc_of_lists=lambda x, y: F.ctc_loss(x, y, (6, 6), (3, 3)),
    ctc_each=lambda x, y: F.ctc_loss(x, y, torch.full((2,), 6), torch.full((2,), 3), reduction="none"),
    ctc_flat=lambda x, y: F.ctc_loss(x, y.reshape(-1), torch.full((2,), 6), torch.full((2,), 3)),
)
uses(
    "sequence losses of batches",
    lambda n: [ramp(12, n, 4).log_softmax(-1), torch.ones(n, 3, dtype=torch.long)],
    ctc=lambda x, y: F.ctc_loss(x, y, torch.full((x.size(1),), 12), torch.full((x.size(1),), 3)),
)
uses(
    "attention",
    lambda n: [ramp(2, 4, n, 8) / 9],
    plain=lambda x: F.scaled_dot_product_attention(x, x, x),
    causal=lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    masked=lambda x: F.scaled_dot_product_attention(x, x, x, torch.ones(x.size(2), x.size(2)).tril().bool()),
    float_mask=lambda x: F.scaled_dot_product_attention(x, x, x, torch.zeros(x.size(2), x.size(2))),
    dropped=lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    grouped=lambda x: F.scaled_dot_product_attention(x, x[:, :2], x[:, :2], enable_gqa=True),
    transposed=lambda x: F.scaled_dot_product_attention(x.transpose(1, 2), x.transpose(1, 2), x.transpose(1, 2)),
)

HEADS = filled(nn.MultiheadAttention(8, 2, batch_first=True))
ENCODER = filled(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))
DECODER = filled(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True))
TRANSFORMER = filled(nn.Transformer(8, 2, 1, 1, 16, batch_first=True))
LSTM, GRU, RNN = (filled(kind(8, 4, batch_first=True)) for kind in (nn.LSTM, nn.GRU, nn.RNN))
BOTH_WAYS = filled(nn.LSTM(8, 4, 2, bidirectional=True))
PROJECTED = filled(nn.LSTM(8, 4, proj_size=2))
CELLS = filled(nn.LSTMCell(8, 4)), filled(nn.GRUCell(8, 4)), filled(nn.RNNCell(8, 4))

for family, sized in ("lengths", lambda n: [ramp(2, n, 8) / 9]), ("batches", lambda n: [ramp(n, 3, 8) / 9]):
    uses(
        f"layers of {family}",
        sized,
        heads=lambda x: HEADS(x, x, x),
        heads_without_weights=lambda x: HEADS(x, x, x, need_weights=False)[0],
        heads_masked=lambda x: HEADS(x, x, x, attn_mask=torch.ones(x.size(1), x.size(1)).triu(1).bool())[0],
        heads_padded=lambda x: HEADS(x, x, x, key_padding_mask=torch.zeros(x.shape[:2]).bool())[0],
        encoder=lambda x: ENCODER(x),
        encoder_masked=lambda x: ENCODER(x, nn.Transformer.generate_square_subsequent_mask(x.size(1))),
        encoder_padded=lambda x: ENCODER(x, src_key_padding_mask=torch.zeros(x.shape[:2]).bool()),
        decoder=lambda x: DECODER(x, x),
        transformer=lambda x: TRANSFORMER(x, x),
        lstm=lambda x: LSTM(x),
        gru=lambda x: GRU(x),
        rnn=lambda x: RNN(x),
        both_ways=lambda x: BOTH_WAYS(x),
        projected=lambda x: PROJECTED(x),
        lstm_state=lambda x: LSTM(x, (torch.zeros(1, x.size(0), 4), torch.ones(1, x.size(0), 4))),
    )
uses(
    "cells",
    lambda n: [ramp(n, 8)],
    lstm=lambda x: CELLS[0](x),
    gru=lambda x: CELLS[1](x),
    rnn=lambda x: CELLS[2](x),
)
uses(
    "without a batch",
    lambda n: [ramp(n, 8)],
    lstm=lambda x: LSTM(x),
    gru=lambda x: GRU(x),
    heads=lambda x: HEADS(x, x, x)[0],
)
uses(
    "embedding modules",
    matrix,
    bilinear=lambda x: F.bilinear(x, x, ramp(2, 3, 3)),
    unflatten=lambda x: nn.Unflatten(0, (-1, 1))(x),
    cosine=lambda x: nn.CosineSimilarity()(x, x + 1),
    softmax2d=lambda x: nn.Softmax2d()(x[None]),
    weight_norm=lambda x: torch._weight_norm(x, x[:, :1].abs(), 0),
)
