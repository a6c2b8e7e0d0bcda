# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""References of attention, quantisation, experts and dropout, and of what else stands around them in a network."""

# ruff: noqa: F403, F405
import numpy as np
from made import *
from tensors import Int4

# ---- Dropout with a mask of bits ----
MASK = torch.from_numpy(np.random.default_rng(1).integers(0, 256, 16, dtype=np.uint8))


def kept(mask: Tensor, like: Tensor) -> Tensor:
    return torch.from_numpy(np.unpackbits(mask.numpy(), bitorder="little")[: like.numel()]).reshape(like.shape)


named("DropoutBackward", lambda gradOutput, mask, scale: gradOutput * kept(mask, gradOutput) * scale, one(gradOutput=A, mask=MASK, scale=1.25))
named("DropoutDoMask", lambda self, mask, prob: self * kept(mask, self) / (1 - prob), one(self=A, mask=MASK, prob=0.25), one(self=HALF, mask=MASK, prob=0.5))


# ---- Attention ----
def attention(query: Tensor, key: Any, value: Any, numHeads: int, scaleValue: float, inputLayout: str, **a: Any) -> Any:
    def by_heads(x: Tensor, heads: int) -> Tensor:
        if inputLayout == "BSH":
            x = x.reshape(*x.shape[:2], heads, -1)
        return (x if inputLayout.startswith("BNSD") else x.transpose(1, 2)).double()

    heads = a.get("numKeyValueHeads") or numHeads
    key, value = (x[0] if isinstance(x, list) else x for x in (key, value))
    q, k, v = by_heads(query, numHeads), by_heads(key, heads), by_heads(value, heads)
    k, v = (x.repeat_interleave(numHeads // heads, 1) for x in (k, v))
    scores = q @ k.mT * scaleValue
    shift = a.get("pseShiftOptional", a.get("pseShift"))
    mask = a.get("attenMaskOptional", a.get("attenMask"))
    lengths = a.get("actualSeqLengthsKvOptional", a.get("actualSeqLengths"))
    if shift is not None:
        scores = scores + shift
    if a.get("sparseMode", 0) in (2, 3):
        rows, columns = scores.shape[2:]
        mask = torch.ones(rows, columns).triu(1 + (columns - rows if a["sparseMode"] == 3 else 0))
    if mask is not None:
        scores = scores.masked_fill(mask.bool(), float("-inf"))
    for batch, length in enumerate(lengths or []):
        scores[batch, :, :, length:] = float("-inf")
        v[batch, :, length:] = 0
    out = scores.softmax(-1).nan_to_num(0) @ v
    if inputLayout != "BNSD":
        out = out.transpose(1, 2)
    out = (out.flatten(2) if inputLayout == "BSH" else out).to(query.dtype)
    return out, scores.logsumexp(-1, keepdim=True).float() if a.get("softmaxLseFlag") else None


TALL = one(numHeads=4, scaleValue=0.5, preTokens=65535, nextTokens=65535, numKeyValueHeads=2, sparseMode=0, innerPrecise=0,
           blockSize=0, antiquantMode=0, softmaxLseFlag=False, keyAntiquantMode=0, valueAntiquantMode=0)  # fmt: skip
BSND = one(query=torch.randn(2, 5, 4, 8), key=[torch.randn(2, 7, 2, 8)], value=[torch.randn(2, 7, 2, 8)], inputLayout="BSND")
HALVES = BSND | {n: [t.half() for t in v] if isinstance(v, list) else v.half() for n, v in BSND.items() if n != "inputLayout"}
BNSD = BSND | one(query=torch.randn(2, 4, 5, 8), key=[torch.randn(2, 2, 7, 8)], value=[torch.randn(2, 2, 7, 8)], inputLayout="BNSD")
BSH = one(query=torch.randn(2, 5, 32), key=[torch.randn(2, 7, 16)], value=[torch.randn(2, 7, 16)], inputLayout="BSH")
SHIFT, SHADE = torch.randn(2, 4, 5, 7), torch.arange(70).reshape(2, 1, 5, 7) % 3 == 0
ATTENTIONS = [TALL | BSND, TALL | HALVES | one(pseShiftOptional=SHIFT.half()), TALL | BSH | one(softmaxLseFlag=True),
              TALL | BSND | one(attenMaskOptional=SHADE, softmaxLseFlag=True), TALL | BSND | one(attenMaskOptional=torch.ones(2, 1, 5, 7).bool()),
              TALL | BNSD | one(sparseMode=2, attenMaskOptional=SHADE), TALL | BSND | one(sparseMode=3, attenMaskOptional=SHADE, actualSeqLengthsKvOptional=[7, 7]),
              TALL | BNSD | one(inputLayout="BNSD_BSND", actualSeqLengthsKvOptional=[3, 7])]  # fmt: skip
named("FusedInferAttentionScore FusedInferAttentionScoreV2", attention, *ATTENTIONS)
BSH_ALONE, BNSD_ALONE = (p | one(key=p["key"][0], value=p["value"][0]) for p in (BSH, BNSD))
named("PromptFlashAttention", lambda **a: attention(**a)[0], TALL | BSH_ALONE, TALL | BNSD_ALONE | one(attenMask=SHADE, pseShift=SHIFT))
named("PromptFlashAttentionV2 PromptFlashAttentionV3", lambda **a: attention(**a)[0], TALL | BSH_ALONE, TALL | BNSD_ALONE | one(sparseMode=3, attenMask=SHADE))
UNSET = BSH | {name: [BSH[name][0].index_put((torch.tensor(1), torch.arange(4, 7)), torch.tensor(float("nan")))] for name in ("key", "value")}
named("IncreFlashAttention", lambda **a: attention(**a)[0], TALL | UNSET | one(query=torch.randn(2, 1, 32), actualSeqLengths=[7, 4]),
      TALL | BSND | one(query=torch.randn(2, 1, 4, 8)))  # fmt: skip

# ---- Numbers of few bits ----
ROUNDING = {"round": torch.round, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc}
BYTES = torch.randint(-128, 128, (3, 8), dtype=torch.int8)


def ascend_quant(x: Tensor, scale: Tensor, offset: Any, sqrtMode: Any, roundMode: str, **_: Any) -> Tensor:
    v = x.float() * (scale.float() ** 2 if sqrtMode else scale) + (0 if offset is None else offset)
    return ROUNDING[roundMode](v).clamp(-128, 127).to(torch.int8)


QUANT = [one(x=A * 20, scale=GAMMA * 9, offset=o, sqrtMode=q, roundMode=r, dstType=torch.int8, axis=-1)
         for r in ROUNDING for o, q in ((None, False), (C[0], True))]  # fmt: skip
named("AscendQuant AscendQuantV3", ascend_quant, *QUANT)
named("AscendAntiQuant", lambda x, scale, offset, dstType, sqrtMode: ((x.float() + (0 if offset is None else offset))
      * (scale**2 if sqrtMode else scale)).to(dstType), *[one(x=BYTES, scale=GAMMA, offset=o, dstType=torch.float16, sqrtMode=o is None)
      for o in (None, C[0])])  # fmt: skip
named("Quantize", lambda x, scales, zeroPoints, dtype, axis: torch.quantize_per_channel(x, scales.double(), zeroPoints.long(), axis,
      torch.quint8 if dtype == torch.uint8 else torch.qint8).int_repr(), *[one(x=IMAGE, scales=SCALES, zeroPoints=z, dtype=d, axis=1)
      for z, d in ((torch.tensor([0, 3, -2], dtype=torch.int8), torch.int8), (torch.tensor([0, 3, 9], dtype=torch.uint8), torch.uint8))])  # fmt: skip


def dynamic_quant(x: Tensor, smoothScalesOptional: Any, **_: Any) -> Any:
    x = x.float() * (1 if smoothScalesOptional is None else smoothScalesOptional)
    scale = x.abs().amax(-1) / 127
    return (x / scale.unsqueeze(-1).clamp_min(1e-37)).round().to(torch.int8), scale, None


DYNAMIC = [one(x=A, smoothScalesOptional=None, dstType=torch.int8), one(x=torch.cat([HALF, 0 * HALF]), smoothScalesOptional=GAMMA.half(), dstType=torch.int8)]
named("DynamicQuant", lambda **a: dynamic_quant(**a)[:2], *DYNAMIC)
named("DynamicQuantV2", dynamic_quant, *DYNAMIC)
named("FakeQuantPerTensorAffineCachemask", lambda self, scale, zeroPoint, fakeQuantEnabled, quantMin, quantMax: (
    torch.fake_quantize_per_tensor_affine(self, scale, zeroPoint, quantMin, quantMax) if fakeQuantEnabled else self, None),
    *[one(self=A, scale=torch.tensor([0.1]), zeroPoint=torch.tensor([2], dtype=torch.int32), fakeQuantEnabled=f, quantMin=-8, quantMax=7)
      for f in (0.0, 1.0)])  # fmt: skip


def packed_scale(scale: Tensor, offset: Any) -> Tensor:
    bits = scale.numpy().view(np.uint32).astype(np.int64) & 0xFFFFE000 | 1 << 46
    if offset is not None:
        bits = bits | (np.clip(np.round(offset.numpy()), -256, 255).astype(np.int64) & 0x1FF) << 37
    return torch.from_numpy(bits)


named("TransQuantParamV2", packed_scale, one(scale=GAMMA, offset=None), one(scale=GAMMA, offset=torch.tensor([1.5, -3, 300, -300, 0, 9, 2.5, -1])))


def quant_matmul(x1: Tensor, x2: Tensor, scale: Tensor, offset: Any, pertokenScaleOptional: Any, bias: Any, transposeX1: Any, transposeX2: Any,
                 out: torch.dtype) -> Tensor:  # fmt: skip
    x1, x2 = x1.mT if transposeX1 else x1, x2.mT if transposeX2 else x2
    y = (x1.long() @ x2.long()).double()
    if bias is not None and not bias.is_floating_point():
        y = y + bias
    if out == torch.int32:
        return y.int()
    y = y * (torch.from_numpy((scale.numpy() & 0xFFFFFFFF).astype(np.uint32).view(np.float32)) if scale.dtype == torch.int64 else scale)
    if pertokenScaleOptional is not None:
        y = y * pertokenScaleOptional[:, None]
    if bias is not None and bias.is_floating_point():
        y = y + bias
    y = y + (0 if offset is None else offset)
    return y.round().clamp(-128, 127).to(out) if out == torch.int8 else y.to(out)


WIDE = torch.randint(-128, 128, (8, 5), dtype=torch.int8)
PRODUCT = one(x1=BYTES, x2=WIDE, scale=torch.rand(5) / 1000, offset=None, bias=None, transposeX1=False, transposeX2=False)
PRODUCTS = [(PRODUCT, torch.float16), (PRODUCT | one(scale=packed_scale(torch.rand(5) / 1000, None), bias=torch.arange(5, dtype=torch.int32) * 999), torch.float16),
            (PRODUCT | one(x1=BYTES.T.contiguous(), x2=WIDE.T.contiguous(), transposeX1=True, transposeX2=True, bias=torch.randn(5)), torch.bfloat16),
            (PRODUCT | one(offset=torch.randn(5) * 9), torch.int8), (PRODUCT, torch.int32)]  # fmt: skip
for name in ("QuantMatmulV3", "QuantMatmulV4"):
    more = one(pertokenScaleOptional=torch.rand(3)) if name.endswith("4") else {}
    named(name, lambda kind, **a: quant_matmul(**({"pertokenScaleOptional": None} | a), out=kind), *[a | (more if t.is_floating_point else {}) | one(kind=t) for a, t in PRODUCTS])


def weight_quant(x: Tensor, weight: Any, antiquantScale: Tensor, antiquantOffsetOptional: Any, biasOptional: Any, antiquantGroupSize: int, **_: Any) -> Tensor:
    w = (weight.tensor if isinstance(weight, Int4) else weight).double()
    rows = torch.arange(len(w)) // (antiquantGroupSize or len(w))
    scale, offset = (None if t is None else torch.atleast_2d(t).double()[rows] for t in (antiquantScale, antiquantOffsetOptional))
    y = x.double() @ ((w + (0 if offset is None else offset)) * scale)
    return (y + (0 if biasOptional is None else biasOptional)).to(x.dtype)


NIBBLES = torch.randint(-8, 8, (8, 6), dtype=torch.int8)
WEIGHTS = [one(x=HALF, weight=w, antiquantScale=s, antiquantOffsetOptional=o, biasOptional=b, antiquantGroupSize=g, innerPrecise=0)
           for w in (NIBBLES, Int4(NIBBLES), Int4(NIBBLES.T.contiguous().T))
           for s, o, b, g in ((torch.rand(6).half(), None, None, 0), (torch.rand(2, 6).half(), torch.randn(2, 6).half(), None, 4),
                              (torch.rand(3, 6).half(), None, torch.randn(6).half(), 3))]  # fmt: skip
named("WeightQuantBatchMatmulV2 WeightQuantBatchMatmulV3 WeightQuantBatchMatmulNz", weight_quant, *WEIGHTS)
named("GroupedMatmulWeightNz", grouped, one(x=[ROWS], weight=[EXPERTS], groupListOptional=torch.tensor([2, 0, 4]), splitItem=2, groupType=0, groupListType=1, actType=0))

# ---- Experts ----
TOKENS, CHOSEN = torch.randn(4, 6), torch.tensor([[2, 0], [1, 2], [0, 1], [2, 1]], dtype=torch.int32)
ORDER = CHOSEN.flatten().argsort(stable=True)
named("MoeComputeExpertTokens", lambda sortedExperts, numExperts: torch.stack([(sortedExperts <= e).sum() for e in range(numExperts)]).int(),
      one(sortedExperts=CHOSEN.flatten().sort().values, numExperts=4))  # fmt: skip
FINISHED = torch.tensor([False, True, False, False])


def gating(x: Tensor, finishedOptional: Any, k: int, renorm: int = 0, **a: Any) -> Any:
    y, experts = (x if renorm else x.softmax(-1)).topk(k)
    if finishedOptional is not None:
        experts = torch.where(finishedOptional[:, None], x.shape[-1], experts)
    rows = torch.arange(len(x))[:, None] + torch.arange(k) * len(x)
    whole = x.softmax(-1) if a.get("outputSoftmaxResultFlag") else None
    return y.softmax(-1) if renorm else y, experts.int(), whole if a else rows.int()


GATES = [one(x=TOKENS, finishedOptional=f, k=2) for f in (None, FINISHED)]
named("MoeGatingTopKSoftmax", gating, *GATES)
named("MoeGatingTopKSoftmaxV2", gating, *[g | one(renorm=r, outputSoftmaxResultFlag=not r) for g in GATES for r in (0, 1)])


@reference(*[one(x=TOKENS, rowIdx=torch.arange(8, dtype=torch.int32).reshape(2, 4).T.contiguous(), expertIdx=CHOSEN, activeNum=n) for n in (4, 2)])
def MoeInitRouting(x: Tensor, rowIdx: Tensor, expertIdx: Tensor, activeNum: int) -> Any:
    experts, order = expertIdx.flatten().sort(stable=True)
    sources = rowIdx.flatten()[order].tolist()
    places = torch.zeros(len(sources), dtype=torch.int32)
    for i, source in enumerate(sources):
        places[source] = i
    return torch.stack([x[s % len(x)] for s in sources[: activeNum * 2]]), places, experts


@reference(*[one(expandedX=torch.randn(8, 6), x1=TOKENS, x2=x2, bias=torch.randn(3, 6), scales=torch.rand(4, 2),
                 expandedRowIdx=torch.randperm(8).int(), expandedExpertIdx=CHOSEN) for x2 in (None, TOKENS + 1)])  # fmt: skip
def MoeFinalizeRouting(expandedX: Tensor, x1: Tensor, x2: Any, bias: Tensor, scales: Tensor, expandedRowIdx: Tensor, expandedExpertIdx: Tensor) -> Tensor:
    out = x1 + (0 if x2 is None else x2)
    for i in range(len(out)):
        for k in range(scales.shape[1]):
            out[i] += scales[i, k] * (expandedX[expandedRowIdx[i + k * len(out)]] + bias[expandedExpertIdx[i, k]])
    return out


named("MoeTokenPermute", lambda tokens, indices, numOutTokens, paddedMode: (tokens[indices.flatten().argsort(stable=True) // 2][: numOutTokens or None],
      indices.flatten().argsort(stable=True).argsort().int()), *[one(tokens=TOKENS, indices=CHOSEN, numOutTokens=n, paddedMode=False) for n in (0, 5)])  # fmt: skip
named("MoeTokenUnpermute", lambda permutedTokens, sortedIndices, probsOptional, paddedMode, restoreShapeOptional: (
    permutedTokens[sortedIndices].reshape(4, -1, 6) * (1 if probsOptional is None else probsOptional[..., None])).sum(1),
    one(permutedTokens=torch.randn(8, 6), sortedIndices=ORDER.argsort().int(), probsOptional=torch.rand(4, 2), paddedMode=False, restoreShapeOptional=None),
    one(permutedTokens=TOKENS, sortedIndices=torch.tensor([2, 0, 3, 1]), probsOptional=None, paddedMode=False, restoreShapeOptional=None))  # fmt: skip
named("MoeTokenPermuteGrad", lambda permutedOutputGrad, **_: gradient(lambda t: t[ORDER // 2], TOKENS, permutedOutputGrad),
      one(permutedOutputGrad=torch.randn(8, 6), sortedIndices=ORDER.argsort().int(), numTopk=2, paddedMode=False))  # fmt: skip


@reference(*[one(permuteTokensOptional=torch.randn(8, 6), unpermutedTokensGrad=TOKENS, sortedIndices=ORDER.argsort().int(), probsOptional=p,
                 paddedMode=False, restoreShapeOptional=None) for p in (None, torch.rand(4, 2))])  # fmt: skip
def MoeTokenUnpermuteGrad(permuteTokensOptional: Tensor, unpermutedTokensGrad: Tensor, sortedIndices: Tensor, probsOptional: Any, **_: Any) -> Any:
    at = permuteTokensOptional, torch.ones(4, 2) if probsOptional is None else probsOptional
    grads = gradients(lambda x, p: (x[sortedIndices].reshape(4, -1, 6) * p[..., None]).sum(1), at, unpermutedTokensGrad)
    return grads[0], None if probsOptional is None else grads[1]


@reference(*[one(x=TOKENS, expertIdx=CHOSEN, activeNumOptional=n, expertCapacityOptional=0, expertNumOptional=3, dropPadModeOptional=0,
                 expertTokensCountOrCumsumFlagOptional=f, expertTokensBeforeCapacityFlagOptional=False) for f, n in enumerate((0, 5, 0))])  # fmt: skip
def MoeInitRoutingV2(x: Tensor, activeNumOptional: int, expertTokensCountOrCumsumFlagOptional: int, **_: Any) -> Any:
    counts = torch.bincount(CHOSEN.flatten(), minlength=3)
    counted = (None, counts.cumsum(0).int(), counts.int())[expertTokensCountOrCumsumFlagOptional]
    return x[ORDER[: activeNumOptional or None] // 2], ORDER.argsort().int(), counted, None


# ---- Results whose size the data decides ----
HOLES = torch.tensor([[0, 3, 0, 1], [0, 0, 0, 0], [3, 3, 0, 1]])
named("NonzeroV2", lambda self: self.nonzero().T, one(self=HOLES), one(self=HOLES.half()), one(self=HOLES[1]))
named("UniqueDim", lambda self, sorted, returnInverse, dim: torch.unique(self, bool(sorted), True, True, dim=dim),
      *[one(self=x, sorted=True, returnInverse=True, dim=d) for x in (HOLES, HOLES.float()) for d in (0, 1)])  # fmt: skip
named("SearchSorteds", lambda sortedSequence, self, outInt32, right, sorter: torch.searchsorted(sortedSequence, self, out_int32=bool(outInt32), right=bool(right)),
      *[one(sortedSequence=torch.arange(6.0), self=2.0, outInt32=i, right=r, sorter=None) for i in (0, 1) for r in (0, 1)])  # fmt: skip


# ---- What stands around ----
@reference(*[one(dy=GRADIENT[0, 0].repeat(1, 2)[:3, :8].to(t), x1=A.to(t), x2=B.to(t), gamma=GAMMA.to(t), dsumOptional=d) | dict(zip(("mean", "rstd"),
             torch.native_layer_norm(A + B, (8,), None, None, 1e-5)[1:], strict=True)) for d, t in ((None, torch.float32), (C, torch.float32), (None, torch.float16))])  # fmt: skip
def AddLayerNormGrad(dy: Tensor, x1: Tensor, x2: Tensor, gamma: Tensor, dsumOptional: Any, **_: Any) -> Any:
    at = x1 + x2, gamma, torch.zeros_like(gamma)
    dx, dgamma, dbeta = gradients(lambda x, gamma, beta: F.layer_norm(x, (8,), gamma, beta), at, dy)
    return dx + (0 if dsumOptional is None else dsumOptional), dgamma, dbeta


named("AsStrided", lambda x, size, stride, storageOffset: x.as_strided(size, stride, storageOffset[0]), one(x=A, size=[3, 2], stride=[5, 2], storageOffset=[1]))
named("BatchNormReduce", lambda x: (x.sum((0, 2, 3)), x.square().sum((0, 2, 3))), one(x=IMAGE))
named("ConfusionTranspose", lambda x, perm, shape, transpose_first: x.permute(perm).reshape(shape) if transpose_first else x.reshape(shape).permute(perm),
      one(x=IMAGE, perm=[1, 0, 3, 2], shape=[6, 20], transpose_first=True), one(x=IMAGE, perm=[1, 0], shape=[6, 20], transpose_first=False))  # fmt: skip
named("ConvTbcBackward", lambda self, input, weight, bias, pad: 
      torch.ops.aten.conv_tbc_backward(self, input, weight, bias, pad),
      one(self=torch.randn(5, 2, 4), input=torch.randn(5, 2, 3), weight=torch.randn(3, 3, 4), bias=torch.randn(4), pad=1))  # fmt: skip
named("CrossEntropyLoss", lambda input, target, weightOptional, reductionOptional, ignoreIndex, labelSmoothing, **_: (F.cross_entropy(
      input, target.long(), weightOptional, reduction=reductionOptional or "mean", ignore_index=ignoreIndex, label_smoothing=labelSmoothing), input.log_softmax(1), None, None),
      *[one(input=A, target=torch.tensor([1, 7, 0], dtype=t), weightOptional=w, reductionOptional=r, ignoreIndex=-100, labelSmoothing=s, lseSquareScaleForZloss=0.0,
            returnZloss=False) for r, t in zip((*REDUCTIONS, None), (torch.int64, torch.int32) * 2, strict=True) for w, s in ((None, 0.0), (GAMMA, 0.1))])  # fmt: skip
named("DeepNorm", lambda x, gx, beta, gamma, alpha, epsilon: tuple(torch.native_layer_norm(x * alpha + gx, (8,), gamma, beta, epsilon)[i] for i in (1, 2, 0)),
      one(x=A, gx=B, beta=C[0], gamma=GAMMA, alpha=0.5, epsilon=1e-5))  # fmt: skip
named("Einsum", lambda tensors, equation: torch.einsum(equation, tensors), one(tensors=[A, B], equation="bi,bj->bij"), one(tensors=[A, B], equation="ij,kj->ik"))
named("FastGeluBackward", lambda gradOutput, self: gradient(lambda x: x * torch.sigmoid(1.702 * x), self, gradOutput), one(gradOutput=A, self=B))
FUSED = {"": lambda y, x: y, "add": torch.add, "mul": torch.mul, "gelu_erf": lambda y, x: F.gelu(y),
         "gelu_tanh": lambda y, x: F.gelu(y, approximate="tanh"), "relu": lambda y, x: F.relu(y)}  # fmt: skip
named("FusedMatmul", lambda x1, x2, bias, x3, fusedOpType: FUSED[fusedOpType](x1 @ x2 + (0 if bias is None else bias), x3),
      *[one(x1=A, x2=B.T.contiguous(), bias=b, x3=torch.randn(3, 3) if f in ("add", "mul") else None, fusedOpType=f) for f in FUSED for b in (None, CHANNELS)])  # fmt: skip
named("FusedMulAddN", lambda x1, x2, x3: x1 * x3 + x2, one(x1=A, x2=B, x3=torch.tensor([2.0])))


@reference(*[one(paramsRef=THREE, gradsRef=[t + 1 for t in THREE], momentumBufferListOptionalRef=[t * 2 for t in THREE] if m else None, weightDecay=0.125,
                 momentum=m, lr=0.25, dampening=0.0, nesterov=m > 0, maximize=False, isFirstStep=False) for m in (0.0, 0.5)])  # fmt: skip
def FusedSgd(paramsRef: Any, gradsRef: Any, momentumBufferListOptionalRef: Any, weightDecay: float, momentum: float, lr: float, **_: Any) -> Any:
    decayed = [g + weightDecay * p for g, p in zip(gradsRef, paramsRef, strict=True)]
    buffers = [momentum * b + g for b, g in zip(momentumBufferListOptionalRef, decayed, strict=True)] if momentum else None
    steps = [g + momentum * b for g, b in zip(decayed, buffers, strict=True)] if buffers else decayed
    return [p - lr * s for p, s in zip(paramsRef, steps, strict=True)], None, buffers


for x, pads in ((IMAGE, [1, 2, 0, 3]), (VOLUME, [1, 2, 0, 3, 1, 1])):
    named(f"CircularPad{x.dim() - 2}dBackward", lambda gradOutput, self, padding: gradient(lambda x: F.pad(x, padding, "circular"), self, gradOutput),
          one(gradOutput=torch.randn_like(F.pad(x, pads, "circular")), self=x, padding=pads))  # fmt: skip
named("ConvertWeightToINT4Pack", lambda weight: torch.from_numpy(((weight.numpy().astype(np.uint32) & 15).reshape(3, 2, 8)
      << np.arange(0, 32, 4, dtype=np.uint32)).sum(-1).astype(np.uint32).view(np.int32)), one(weight=torch.randint(-8, 8, (3, 16), dtype=torch.int32)))  # fmt: skip
named("NpuFormatCast", lambda srcTensor: srcTensor, one(srcTensor=A))
named("SignBitsPack", lambda self, size: torch.from_numpy(np.packbits(self.numpy() >= 0, bitorder="little")).reshape(size, -1),
      one(self=A.flatten(), size=3), one(self=B.flatten()[:14], size=2))  # fmt: skip
named("SignBitsUnpack", lambda self, size, dtype: (torch.from_numpy(np.unpackbits(self.numpy(), bitorder="little")).to(dtype) * 2 - 1).reshape(size, -1),
      one(self=MASK, size=2, dtype=torch.float16))  # fmt: skip


@reference(*[one(x=x, gamma=torch.rand(c), beta=torch.rand(c), dataFormat=f, eps=1e-5) for x in (IMAGE, (IMAGE * 300).half())
             for f, c in (("NCHW", 3), ("NHWC", 5))])  # fmt: skip
def InstanceNorm(x: Tensor, gamma: Tensor, beta: Tensor, dataFormat: str, eps: float) -> Any:
    channels, axes = (1, (2, 3)) if dataFormat == "NCHW" else (3, (1, 2))
    type_of_y, x = x.dtype, x.float()
    y = F.instance_norm(x.movedim(channels, 1), weight=gamma, bias=beta, eps=eps).movedim(1, channels)
    return y.to(type_of_y), x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)


@reference(one(data=torch.randn(2, 3, 6, 4), indices=torch.tensor([1, 3]), updates=torch.randn(2, 3, 2, 4), axis=-2))
def InplaceScatterUpdate(data: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    for each, start, update in zip(data, indices, updates, strict=True):
        each.narrow(axis, int(start), update.shape[axis]).copy_(update)
    return data


PLACES = torch.tensor([[0, 1], [1, 2]])
NOT_INDEXED, TWO = torch.tensor([], dtype=torch.int64), torch.tensor([2, 0])
beside_samples("Index", lambda self, indices: self[:, indices[1]], one(self=IMAGE, indices=[NOT_INDEXED, TWO]))
beside_samples("IndexPutImpl", lambda selfRef, indices, values, **_: selfRef.index_copy(1, indices[1], values),
               one(selfRef=IMAGE, indices=[NOT_INDEXED, TWO], values=GRADIENT[:, :2], accumulate=False, unsafe=False))  # fmt: skip
named("GatherNd", lambda self, indices, negativeIndexSupport: self[tuple(indices.long().unbind(-1))],
      *[one(self=IMAGE, indices=PLACES.to(t), negativeIndexSupport=False) for t in (torch.int32, torch.int64)])  # fmt: skip


def geglu_arguments(left: int, approximate: int) -> dict[str, Any]:
    return one(gradOutput=B[:, :4].contiguous(), self=A, gelu=geglu(A, -1, approximate, left)[1], dim=-1, approximate=approximate)


named("GeGluBackward", lambda gradOutput, self, gelu, dim, approximate: gradient(lambda x: geglu(x, dim, approximate, 0)[0], self, gradOutput),
      *[geglu_arguments(0, a) for a in (0, 1)])  # fmt: skip
named("GeGluV3Backward", lambda gradOutput, self, gelu, dim, approximate, activateLeft: gradient(
      lambda x: geglu(x, dim, approximate, activateLeft)[0], self, gradOutput),
      *[geglu_arguments(left, a) | one(activateLeft=left) for left in (0, 1) for a in (0, 1)])  # fmt: skip
named("GeluMul", lambda input, approximateOptional: F.gelu(input[:, :4], approximate=approximateOptional or "none") * input[:, 4:],
      *[one(input=A, approximateOptional=a) for a in (None, "none", "tanh")])  # fmt: skip
named("GlobalAveragePool", lambda self: self.mean((2, 3), keepdim=True), one(self=IMAGE))
named("GlobalMaxPool", lambda self: self.amax((2, 3), keepdim=True), one(self=IMAGE))


named("IsInScalarTensor", lambda element, testElements, assumeUnique, invert: torch.isin(element, testElements, invert=bool(invert)),
      *[one(element=e, testElements=torch.arange(5), assumeUnique=False, invert=i) for e in (3, 7) for i in (0, 1)])  # fmt: skip
named("KlDivTargetBackward", lambda gradOutput, self, target, reduction, logTarget: gradient(lambda t: F.kl_div(
      self, t, reduction=KL_REDUCTIONS[reduction], log_target=bool(logTarget)), target, gradOutput),
      *[one(gradOutput=g, self=B, target=POSITIVE, reduction=r, logTarget=i) for i in (0, 1) for r, g in OF_KL_REDUCTIONS])  # fmt: skip
POOLED, PLACED = F.max_pool2d(IMAGE, 2, return_indices=True)
named("MaxUnpool2dBackward", lambda gradOutput, self, indices, outputSize: gradient(lambda x: F.max_unpool2d(x, indices, 2, output_size=(4, 5)), self, gradOutput),
      one(gradOutput=GRADIENT, self=POOLED, indices=PLACED, outputSize=[4, 5]))  # fmt: skip
POOLED3, PLACED3 = F.max_pool3d(VOLUME, 2, return_indices=True)
named("MaxUnpool3dBackward", lambda gradOutput, self, indices, **_: gradient(lambda x: F.max_unpool3d(x, indices, 2, output_size=(3, 4, 5)), self, gradOutput),
      one(gradOutput=torch.randn(1, 2, 3, 4, 5), self=POOLED3, indices=PLACED3, outputSize=[3, 4, 5], stride=[2, 2, 2], padding=[0, 0, 0]))  # fmt: skip
named("RepeatInterleaveGrad", lambda yGrad, repeats, axis: gradient(lambda x: x.repeat_interleave(repeats, axis), torch.zeros(3, 8), yGrad),
      one(yGrad=torch.randn(4, 8), repeats=torch.tensor([1, 0, 3]), axis=0))  # fmt: skip
TURN = one(dy=torch.randn(2, 5, 3, 8), cos=torch.randn(2, 5, 1, 8), sin=torch.randn(2, 5, 1, 8))


@reference(*[TURN | one(xOptional=x, mode=m) for m in (0, 1) for x in (None, torch.randn(2, 5, 3, 8))])
def RotaryPositionEmbeddingGrad(dy: Tensor, cos: Tensor, sin: Tensor, xOptional: Any, mode: int) -> Any:
    x = torch.zeros_like(dy) if xOptional is None else xOptional
    grads = gradients(lambda x, cos, sin: rotated(x, cos, sin, mode), (x, cos, sin), dy)
    return grads if xOptional is not None else (grads[0], None, None)


UPDATES = torch.randn(2, 4, 5)
named("ScatterNd", lambda data, indices, updates: data.index_put(tuple(indices.unbind(-1)), updates), one(data=IMAGE, indices=PLACES, updates=UPDATES))
named("ScatterNdUpdate", lambda varRef, indices, updates: varRef.index_put(tuple(indices.unbind(-1)), updates), one(varRef=IMAGE, indices=PLACES, updates=UPDATES))
named("TfScatterAdd", lambda varRef, indices, updates: varRef.index_add(0, indices, updates), one(varRef=A, indices=torch.tensor([2, 0, 2]), updates=B))
named("SoftmaxCrossEntropyWithLogits", lambda features, labels: (F.cross_entropy(features, labels, reduction="none"), features.softmax(-1) - labels),
      one(features=A, labels=B.softmax(-1)))  # fmt: skip
named("SortWithIndex", lambda x, index, axis, descending, stable: (x.sort(axis, bool(descending)).values, index.gather(axis, x.argsort(axis, bool(descending)))),
      *[one(x=A, index=torch.arange(24).reshape(3, 8) * 3, axis=-1, descending=d, stable=True) for d in (0, 1)])  # fmt: skip
named("TransposeBatchMatMul", lambda x1, x2, permX1, permX2, permY, **_: (x1.permute(permX1) @ x2.permute(permX2)).permute(permY),
      one(x1=torch.randn(5, 2, 3), x2=torch.randn(2, 3, 4), permX1=[1, 0, 2], permX2=[0, 1, 2], permY=[1, 0, 2], batchSplitFactor=1))  # fmt: skip
named("TransformBiasRescaleQkv", lambda qkv, qkvBias, numHeads: torch.ops.aten._transform_bias_rescale_qkv(qkv, qkvBias, numHeads),
      one(qkv=torch.randn(2, 5, 24), qkvBias=torch.randn(24), numHeads=2))  # fmt: skip
