# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Arguments where PyTorch has no samples, and references of what no single operator of PyTorch computes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from samples import functional, overload
from torch import Tensor

ARGUMENTS: dict[str, list[dict[str, Any]]] = {}
REFERENCES: dict[str, Callable[..., Any]] = {}
BESIDE_SAMPLES: set[str] = set()  # functions that PyTorch has samples of, too

TYPE_OF_NUMBERS = {torch.float32: 1.5, torch.int64: 2, torch.bool: 1}


def arguments_for(name: str) -> list[list[Any]]:
    """By the types in the operator's schema: tensors of one shape, in floats and in integers."""
    try:
        schema = overload(functional(name))._schema
    except AttributeError:
        schema = overload(name)._schema
    samples = []
    for dtype in TYPE_OF_NUMBERS:
        torch.manual_seed(0)
        samples.append([of_type(str(p.type), p, dtype) for p in schema.arguments])
    return samples


def of_type(kind: str, parameter: Any, dtype: torch.dtype) -> Any:
    if parameter.has_default_value():
        return parameter.default_value
    number = TYPE_OF_NUMBERS[dtype]

    def tensor() -> Tensor:
        return (torch.rand(3, 4) * 4 + 0.5).to(dtype)

    return {
        "Tensor": tensor,
        "List[Tensor]": lambda: [tensor(), tensor()[:2], tensor()[0]],
        "number": lambda: number,
        "List[number]": lambda: [number, 2 * number, number],
        "float": lambda: 0.5,
        "int": lambda: 1,
        "bool": lambda: True,
    }.get(kind, lambda: None)()


def reference(*arguments: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a reference under its name, with these arguments."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        named(function.__name__, function, *arguments)
        return function

    return register


def named(names: str, reference: Callable[..., Any], *arguments: dict[str, Any]) -> None:
    for name in names.split():
        REFERENCES[name], ARGUMENTS[name] = reference, list(arguments)


def beside_samples(names: str, reference: Callable[..., Any], *arguments: dict[str, Any]) -> None:
    named(names, reference, *arguments)
    BESIDE_SAMPLES.update(names.split())


torch.manual_seed(1)
A, B, C = torch.randn(3, 8), torch.randn(3, 8), torch.randn(3, 8)
POSITIVE = torch.rand(3, 8) + 0.5
IMAGE, GRADIENT = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
CHANNELS, SCALES = torch.randn(3), torch.rand(3) + 0.5
TEN_INTEGERS = torch.arange(10)
HALF = A.half()
THREE = [A, B[:2], C[0]]
one = dict  # the arguments of a call

# ---- Element by element ----
named("AddRelu", lambda self, other, alpha: (self + alpha * other).relu(), one(self=A, other=B, alpha=0.5))
named("InplaceAddRelu", lambda selfRef, other, alpha: (selfRef + alpha * other).relu(),
      *[one(selfRef=A.to(t), other=B.to(t), alpha=0.5) for t in (torch.float32, torch.bfloat16)])  # fmt: skip
named("AddV3", lambda self, other, alpha: self + alpha * other, one(self=1.5, other=A, alpha=2.0))
named("InplaceAddV3", lambda selfRef, other, alpha: selfRef + alpha * other, one(selfRef=1.5, other=A, alpha=2.0))
named("AxpyV2", lambda self, other, alpha: self + other * alpha, one(self=A, other=B, alpha=torch.tensor([0.5])))
named("Swish", lambda self, betaOptional: self * torch.sigmoid((1.0 if betaOptional is None else betaOptional) * self),
      one(self=A, betaOptional=None), one(self=A, betaOptional=0.7), one(self=HALF, betaOptional=2.0))  # fmt: skip
named("FastGelu", lambda self: self * torch.sigmoid(1.702 * self), one(self=A), one(self=HALF))
named("Softsign", lambda self: F.softsign(self), one(self=A))
named("SquaredRelu", lambda input: F.relu(input) ** 2, one(input=A))
named("SiluMul", lambda x, y: F.silu(x) * y, one(x=A, y=B))
named("MaskedScale", lambda self, mask, scale: self * mask * scale, one(self=A, mask=(B > 0).byte(), scale=2.0))
named("Shrink", lambda self, lambd, bias: torch.where(self > lambd, self - bias, torch.where(self < -lambd, self + bias, 0)),
      one(self=A, lambd=0.5, bias=0.25))  # fmt: skip
named("Cast", lambda self, dtype: self.to(dtype), *[one(self=A * 10, dtype=d) for d in (torch.int32, torch.float16, torch.bool)],
      one(self=TEN_INTEGERS, dtype=torch.float32))  # fmt: skip
named("NanToNum", lambda self, nan, posinf, neginf: torch.nan_to_num(self, nan, posinf, neginf),
      one(self=torch.tensor([1.0, float("nan"), float("inf"), -float("inf")]), nan=2.0, posinf=3.0, neginf=-4.0))  # fmt: skip
named("InplaceNanToNum", lambda selfRef, nan, posinf, neginf: torch.nan_to_num(selfRef, nan, posinf, neginf),
      one(selfRef=torch.tensor([1.0, float("nan"), float("inf"), -float("inf")]), nan=2.0, posinf=3.0, neginf=-4.0))  # fmt: skip
named("InplaceFillTensor", lambda selfRef, value: torch.full_like(selfRef, value.item()),
      one(selfRef=A, value=torch.tensor(2.5)), one(selfRef=A, value=torch.tensor([2.5])))  # fmt: skip
beside_samples("InplaceMaskedFillTensor", lambda selfRef, mask, value: selfRef.masked_fill(mask, value.item()),
               one(selfRef=A, mask=B > 0, value=torch.tensor([2.5])))  # fmt: skip
named("InplacePowTensorScalar", lambda self, exponent: self**exponent, one(self=POSITIVE, exponent=2.5))
named("TransMatmulWeight", lambda mmWeightRef: mmWeightRef, one(mmWeightRef=A))
named("Sum SumV2 AddN", lambda tensors: tensors[0] + tensors[1] + tensors[2], one(tensors=[A, B, C]))
named("MaxN", lambda tensors: torch.maximum(tensors[0], tensors[1]), one(tensors=[A, B]))
named("MinN", lambda tensors: torch.minimum(tensors[0], tensors[1]), one(tensors=[A, B]))


# ---- Gradients, by automatic differentiation ----
def gradients(function: Callable[..., Tensor], at: tuple[Tensor, ...], grad: Tensor) -> tuple[Tensor, ...]:
    """With respect to each of the function's arguments."""
    at = tuple(x.detach().clone().requires_grad_() for x in at)
    with torch.enable_grad():
        return torch.autograd.grad(function(*at), at, grad)


def gradient(function: Callable[[Tensor], Tensor], at: Tensor, grad: Tensor) -> Tensor:
    return gradients(function, (at,), grad)[0]


named("SwishBackward", lambda gradOutput, self, betaOptional: gradient(
    lambda x: x * torch.sigmoid((1.0 if betaOptional is None else betaOptional) * x), self, gradOutput),
    one(gradOutput=A, self=B, betaOptional=None), one(gradOutput=A, self=B, betaOptional=0.7))  # fmt: skip
named("SoftsignBackward", lambda gradients, features: gradient(F.softsign, features, gradients), one(gradients=A, features=B))
named("SeluBackward", lambda gradOutput, result: gradient(torch.selu, torch.where(result > 0, result / 1.0507009873554805,
      torch.log1p(result / 1.7580993408473766)), gradOutput), one(gradOutput=A, result=torch.selu(B)))  # fmt: skip
named("LogSigmoidBackward", lambda gradOutput, self, buffer: gradient(F.logsigmoid, self, gradOutput),
      one(gradOutput=A, self=B, buffer=torch.empty(0)))  # fmt: skip
REDUCTIONS = ("none", "mean", "sum")
OF_REDUCTIONS = [(r, A if r == 0 else torch.tensor(2.0)) for r in range(3)]
KL_REDUCTIONS = (*REDUCTIONS, "batchmean")
OF_KL_REDUCTIONS = [*OF_REDUCTIONS, (3, torch.tensor(2.0))]
named("L1LossBackward", lambda gradOutput, self, target, reduction: gradient(
    lambda x: F.l1_loss(x, target, reduction=REDUCTIONS[reduction]), self, gradOutput),
    *[one(gradOutput=g, self=B, target=C, reduction=r) for r, g in OF_REDUCTIONS])  # fmt: skip
beside_samples("KlDiv", lambda self, target, reduction, logTarget: F.kl_div(
    self, target, reduction=KL_REDUCTIONS[reduction], log_target=bool(logTarget)),
    *[one(self=B, target=POSITIVE, reduction=3, logTarget=in_logs) for in_logs in (0, 1)])  # fmt: skip
named("KlDivBackward", lambda gradOutput, self, target, reduction, logTarget: gradient(
    lambda x: F.kl_div(x, target, reduction=KL_REDUCTIONS[reduction], log_target=bool(logTarget)), self, gradOutput),
    *[one(gradOutput=g, self=B, target=POSITIVE, reduction=r, logTarget=in_logs) for r, g in OF_KL_REDUCTIONS for in_logs in (0, 1)])  # fmt: skip
named("BinaryCrossEntropyWithLogitsBackward", lambda gradOutput, self, target, weightOptional, posWeightOptional, reduction:
    gradient(lambda x: F.binary_cross_entropy_with_logits(x, target, weightOptional, reduction=REDUCTIONS[reduction],
             pos_weight=posWeightOptional), self, gradOutput),
    *[one(gradOutput=g, self=B, target=torch.rand(3, 8), weightOptional=w, posWeightOptional=p, reduction=r)
      for r, g in OF_REDUCTIONS for w, p in ((None, None), (POSITIVE, torch.rand(8) + 0.5))])  # fmt: skip
named("PreluBackward", lambda gradOutput, self, weight: gradients(F.prelu, (self, weight), gradOutput),
      *[one(gradOutput=GRADIENT, self=IMAGE, weight=w) for w in (CHANNELS, CHANNELS[:1])],
      *[one(gradOutput=x, self=-x, weight=CHANNELS[:1]) for x in (B[0], B[0, 0])])  # fmt: skip


# ---- Reductions and their like ----
for name, reduce in (("All", Tensor.all), ("Any", Tensor.any)):
    beside_samples(name, lambda self, dim, keepdim, f=reduce: f(self.bool(), tuple(dim) or (0, 1), bool(keepdim)),
                   *[one(self=(A > 0).byte() * 2, dim=d, keepdim=k % 2) for k, d in enumerate(([0], [1], [], []))])  # fmt: skip
beside_samples("LogSumExp", lambda self, dim, keepDim: self.logsumexp((0, 1), bool(keepDim)),
               *[one(self=A, dim=[], keepDim=k) for k in (False, True)])  # fmt: skip
named("Aminmax", lambda self, dim, keepDim: (self.amin(dim, bool(keepDim)), self.amax(dim, bool(keepDim))),
      one(self=A, dim=[1], keepDim=False), one(self=A, dim=[0, 1], keepDim=True))  # fmt: skip
named("ReduceLogSum", lambda data, axes, keepDims, noopWithEmptyAxes: data.sum(axes, bool(keepDims)).log(),
      one(data=POSITIVE, axes=[1], keepDims=True, noopWithEmptyAxes=False))  # fmt: skip
named("CumsumV2", lambda self, dim, exclusive, reverse: exclusive_sum(self, dim, exclusive, reverse),
      *[one(self=A, dim=d, exclusive=e, reverse=r) for d in (0, -1) for e in (0, 1) for r in (0, 1)],
      *[one(self=torch.tensor([1.0, 1e20, float("inf"), 2.0]), dim=0, exclusive=1, reverse=r) for r in (0, 1)])  # fmt: skip


def exclusive_sum(x: Tensor, dim: int, exclusive: int, reverse: int) -> Tensor:
    x = x.double().movedim(dim, 0)
    rows = [x[i + 1 - (not exclusive) :] if reverse else x[: i + (not exclusive)] for i in range(len(x))]
    return torch.stack([r.sum(0) for r in rows]).movedim(0, dim).float()


@reference(one(input=torch.randn(6, 4), fullMatrices=False, computeUV=True), one(input=torch.randn(3, 4), fullMatrices=False, computeUV=True))
def Svd(input: Tensor, fullMatrices: int, computeUV: int) -> Any:
    u, s, vh = torch.linalg.svd(input, full_matrices=bool(fullMatrices))
    return s, u, vh.mH


# ---- Products ----
named("Gemm", lambda A, B, C, alpha, beta, transA, transB: alpha * (A.T if transA else A) @ (B.T if transB else B) + beta * C,
      *[one(A=A if not a else A.T.contiguous(), B=B.T.contiguous() if not b else B, C=torch.randn(3, 3), alpha=2.0, beta=0.5,
            transA=a, transB=b) for a in (0, 1) for b in (0, 1)])  # fmt: skip
named("AddmmWeightNz", lambda self, mat1, mat2, beta, alpha: beta * self + alpha * (mat1.float() @ mat2.float()), one(self=CHANNELS, mat1=HALF, mat2=HALF.T.contiguous(), beta=0.5, alpha=2.0))
named("Ger", lambda self, vec2: torch.outer(self, vec2), one(self=CHANNELS, vec2=A[0]))
named("Inverse", lambda self: torch.linalg.inv(self), one(self=torch.randn(2, 4, 4) + 4 * torch.eye(4)))


def grouped(x: list[Tensor], weight: list[Tensor], biasOptional: Any = None, groupListOptional: Any = None, groupListType: int = 0, **_: Any) -> Any:
    if groupListOptional is None:
        return ([a @ w + (0 if biasOptional is None else biasOptional[i]) for i, (a, w) in enumerate(zip(x, weight, strict=False))],)
    weights = list(weight[0]) if len(weight) == 1 else weight
    starts = (groupListOptional.cumsum(0) if groupListType else groupListOptional).tolist()
    parts = [x[0][a:b] @ w for a, b, w in zip([0, *starts], starts, weights, strict=False)]
    return ([torch.cat([*parts, torch.zeros(len(x[0]) - starts[-1], weights[0].shape[-1])])],)


PAIRS = [one(x=[A, B[:2]], weight=[torch.randn(8, 4), torch.randn(8, 5)], biasOptional=b, splitItem=0, groupType=-1, groupListType=0, actType=0)
         for b in (None, [torch.randn(4), torch.randn(5)])]  # fmt: skip
ROWS, EXPERTS = torch.randn(7, 8), torch.randn(3, 8, 4)
IN_GROUPS = [one(x=[ROWS], weight=w, groupListOptional=torch.tensor([2, 2, 6]), splitItem=2, groupType=0, groupListType=0, actType=0)
             for w in ([EXPERTS], list(EXPERTS))]  # fmt: skip
IN_COUNTS = [one(x=[ROWS], weight=[EXPERTS], groupListOptional=torch.tensor([2, 0, 4]), splitItem=2, groupType=0, groupListType=1, actType=0)]
named("GroupedMatmul GroupedMatmulV2", grouped, *PAIRS)
named("GroupedMatmulV3", grouped, *PAIRS, *IN_GROUPS)
named("GroupedMatmulV4 GroupedMatmulV5", grouped, *PAIRS, *IN_GROUPS, *IN_COUNTS)
named("ConvDepthwise2d", lambda self, weight, kernelSize, bias, stride, padding, dilation: F.conv2d(
    self, weight, bias, stride, padding, dilation, 3), one(self=IMAGE, weight=torch.randn(3, 1, 2, 2), kernelSize=[2, 2],
    bias=CHANNELS, stride=[1, 1], padding=[1, 1], dilation=[1, 1]))  # fmt: skip
named("ConvTbc", lambda self, weight, bias, pad: torch.conv_tbc(self, weight, bias, pad),
      one(self=torch.randn(5, 2, 3), weight=torch.randn(3, 3, 4), bias=torch.randn(4), pad=1))  # fmt: skip

# ---- Normalisation ----


def rms(x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    axes = tuple(range(-gamma.dim(), 0))
    rstd = torch.rsqrt(x.double().square().mean(axes, keepdim=True) + epsilon)
    return (x.double() * rstd * gamma.double()).to(x.dtype), rstd.float()


GAMMA = torch.rand(8) + 0.5
named("RmsNorm", rms, one(x=A, gamma=GAMMA, epsilon=1e-5), one(x=HALF, gamma=GAMMA.half(), epsilon=1e-5),
      one(x=IMAGE, gamma=torch.rand(4, 5), epsilon=1e-5))  # fmt: skip
named("GemmaRmsNorm", lambda x, gamma, epsilon: rms(x, 1 + gamma, epsilon), one(x=A, gamma=GAMMA, epsilon=1e-5))
named("AddRmsNorm", lambda x1, x2, gamma, epsilon: (*rms(x1 + x2, gamma, epsilon), x1 + x2), one(x1=A, x2=B, gamma=GAMMA, epsilon=1e-5))
named("InplaceAddRmsNorm", lambda x1Ref, x2Ref, gamma, epsilon: rms(x1Ref + x2Ref, gamma, epsilon)[1],
      one(x1Ref=A, x2Ref=B, gamma=GAMMA, epsilon=1e-5))  # fmt: skip
named("RmsNormGrad", lambda dy, x, rstd, gamma: gradients(lambda x, gamma: F.rms_norm(x, (8,), gamma, 1e-5), (x, gamma), dy),
      one(dy=B, x=A, rstd=rms(A, GAMMA, 1e-5)[1], gamma=GAMMA))  # fmt: skip


@reference(*[one(x1=A, x2=B, gamma=GAMMA, beta=C[0], biasOptional=b, epsilon=1e-5, additionalOutput=True) for b in (None, C[1])])
def AddLayerNorm(x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, biasOptional: Any, epsilon: float, additionalOutput: int) -> Any:
    x = x1 + x2 + (0 if biasOptional is None else biasOptional)
    return (*torch.native_layer_norm(x, (8,), gamma, beta, epsilon), x)


def in_float32(norm: Callable[..., Any], x: Tensor, *arguments: Any) -> Any:
    """The statistics are not rounded to the type of the tensors."""
    y, *statistics = norm(*[a.float() if isinstance(a, Tensor) else a for a in (x, *arguments)])
    return y.to(x.dtype), *statistics


beside_samples("FastLayerNorm LayerNorm LayerNormWithImplMode",
               lambda input, normalizedShape, weightOptional, biasOptional, eps: in_float32(
               torch.native_layer_norm, input, normalizedShape, weightOptional, biasOptional, eps),
               one(input=HALF, normalizedShape=[8], weightOptional=GAMMA.half(), biasOptional=None, eps=1e-5))  # fmt: skip
beside_samples("GroupNorm", lambda self, gamma, beta, N, C, HxW, group, eps: in_float32(
               torch.native_group_norm, self, gamma, beta, N, C, HxW, group, eps),
               one(self=IMAGE.half(), gamma=SCALES.half(), beta=CHANNELS.half(), N=2, C=3, HxW=20, group=1, eps=1e-5))  # fmt: skip


def group_norm(x: Tensor, gamma: Tensor, beta: Tensor, group: int, eps: float, scale: float) -> Any:
    """With the activation that has this scale; none where that is 0."""
    y, mean, rstd = torch.native_group_norm(x, gamma, beta, len(x), x.shape[1], x[0, 0].numel(), group, eps)
    return y * torch.sigmoid(scale * y) if scale else y, mean, rstd


GROUPS = one(gamma=torch.rand(6), beta=torch.rand(6), eps=1e-5)
named("GroupNormSilu", lambda self, **a: group_norm(self, scale=1, **a), GROUPS | one(self=torch.randn(2, 6, 4), group=3))
named("GroupNormSiluV2", lambda self, activateSilu, **a: group_norm(self, scale=activateSilu, **a),
      *[GROUPS | one(self=torch.randn(2, 6, 4), group=3, activateSilu=a) for a in (0, 1)])  # fmt: skip
named("GroupNormSwish", lambda numGroups, activateSwish, swishScale, **a: group_norm(group=numGroups, scale=activateSwish * swishScale, **a),
      *[GROUPS | one(x=torch.randn(2, 6, 4), numGroups=3, activateSwish=a, swishScale=0.75) for a in (0, 1)])  # fmt: skip

STATISTICS = one(mean=CHANNELS, invstd=SCALES)
OVER = (0, 2, 3)


def by_channel(values: Tensor) -> Tensor:
    return values[:, None, None]


named("BatchNormStats", lambda input, eps: (input.float().mean(OVER), torch.rsqrt(input.float().var(OVER, correction=0) + eps)),
      *[one(input=x, eps=1e-5) for x in (IMAGE, (IMAGE * 300).half())])  # fmt: skip
named("BatchNormElemt", lambda input, weight, bias, mean, invstd, eps: (input - by_channel(mean)) * by_channel(invstd)
      * (1 if weight is None else by_channel(weight)) + (0 if bias is None else by_channel(bias)),
      one(input=IMAGE, weight=SCALES, bias=CHANNELS, eps=1e-5, **STATISTICS), one(input=IMAGE, weight=None, bias=None, eps=1e-5, **STATISTICS))  # fmt: skip


@reference(one(gradOut=GRADIENT, input=IMAGE, mean=IMAGE.mean(OVER), invstd=torch.rsqrt(IMAGE.var(OVER, correction=0)), weight=SCALES,
               sumDy=GRADIENT.sum(OVER), sumDyXmu=(GRADIENT * (IMAGE - by_channel(IMAGE.mean(OVER)))).sum(OVER),
               counter=torch.tensor([40], dtype=torch.int32)))  # fmt: skip
def BatchNormElemtBackward(gradOut: Tensor, input: Tensor, weight: Tensor, **_: Any) -> Tensor:
    return gradient(lambda x: F.batch_norm(x, None, None, weight, None, True, eps=1e-12), input, gradOut)


# ---- Gated activations, rotation of positions ----
named("SwiGlu", lambda x, dim: F.silu(x.chunk(2, dim)[0]) * x.chunk(2, dim)[1], one(x=A, dim=-1), one(x=IMAGE, dim=2))
named("SwiGluGrad", lambda yGrad, x, dim: gradient(lambda v: F.silu(v.chunk(2, dim)[0]) * v.chunk(2, dim)[1], x, yGrad),
      one(yGrad=B[:, :4].contiguous(), x=A, dim=-1))  # fmt: skip
APPROXIMATE = ("none", "tanh")
named("GeGlu", lambda self, dim, approximate: geglu(self, dim, approximate, 0), *[one(self=A, dim=-1, approximate=a) for a in (0, 1)])
named("GeGluV3", lambda self, dim, approximate, activateLeft: geglu(self, dim, approximate, activateLeft),
      *[one(self=A, dim=-1, approximate=a, activateLeft=left) for a in (0, 1) for left in (0, 1)])  # fmt: skip


def geglu(x: Tensor, dim: int, approximate: int, left: int) -> Any:
    parts = x.chunk(2, dim)
    active = F.gelu(parts[0 if left else 1], approximate=APPROXIMATE[approximate])
    return active * parts[1 if left else 0], active


def rotated(x: Tensor, cos: Tensor, sin: Tensor, mode: int) -> Tensor:
    out = torch.empty_like(x)
    half = x.shape[-1] // 2
    for i in range(half):
        a, b = (i, i + half) if mode == 0 else (2 * i, 2 * i + 1)
        out[..., a] = x[..., a] * cos[..., a] - x[..., b] * sin[..., a]
        out[..., b] = x[..., b] * cos[..., b] + x[..., a] * sin[..., b]
    return out


HEADS, KEYS, COS, SIN = torch.randn(2, 5, 3, 8), torch.randn(2, 5, 1, 8), torch.randn(2, 5, 1, 8), torch.randn(2, 5, 1, 8)
named("RotaryPositionEmbedding", rotated, *[one(x=HEADS, cos=COS, sin=SIN, mode=m) for m in (0, 1)])
named("ApplyRotaryPosEmb ApplyRotaryPosEmbV2", lambda queryRef, keyRef, cos, sin, **_: (
      rotated(queryRef, cos, sin, 0), rotated(keyRef, cos, sin, 0)),
      one(queryRef=HEADS, keyRef=KEYS, cos=COS, sin=SIN, layout=1, rotaryMode="half"))  # fmt: skip

# ---- Places of elements ----
named("GatherV2 GatherV3", lambda self, dim, index, **_: torch.from_numpy(np.take(self.numpy(), index.numpy(), dim)),
      *[one(self=IMAGE, dim=d, index=torch.tensor(i, dtype=t), batchDims=0, mode=0)
        for d in (0, 2) for i in ([[0, 1, 0], [1, 0, 1]], 1) for t in (torch.int64, torch.int32)])  # fmt: skip
named("OneHot", lambda self, numClasses, onValue, offValue, axis: torch.where(
    F.one_hot(self, numClasses).movedim(-1, axis).bool(), onValue, offValue),
    *[one(self=torch.tensor([[0, 2], [1, 3]]), numClasses=4, onValue=torch.tensor([2.0]), offValue=torch.tensor([-1.0]), axis=a) for a in (-1, 0)])  # fmt: skip
named("RepeatInterleave", lambda self, repeats, outputSize: self.repeat_interleave(repeats),
      one(self=CHANNELS, repeats=torch.tensor([1, 0, 3]), outputSize=4))  # fmt: skip
named("CircularPad2d", lambda self, padding: F.pad(self, padding, "circular"), one(self=IMAGE, padding=[1, 2, 0, 3]))
named("CircularPad3d", lambda self, padding: F.pad(self, padding, "circular"), one(self=torch.randn(1, 2, 3, 4, 5), padding=[1, 2, 0, 3, 1, 1]))
named("AffineGrid", lambda theta, size, alignCorners: F.affine_grid(theta, size, bool(alignCorners)),
      one(theta=torch.randn(2, 2, 3), size=[2, 1, 4, 5], alignCorners=True), one(theta=torch.randn(2, 3, 4), size=[2, 1, 2, 4, 5], alignCorners=False))  # fmt: skip
named("MaxPool", lambda self, kernelShape, strides, autoPad, pads, dilations, ceilMode: F.max_pool2d(
    self, kernelShape, strides, pads[0], dilations, bool(ceilMode)),
    one(self=IMAGE, kernelShape=[2, 2], strides=[2, 2], autoPad=0, pads=[0, 0, 0, 0], dilations=[1, 1], ceilMode=0),
    one(self=IMAGE, kernelShape=[3, 3], strides=[1, 1], autoPad=0, pads=[1, 1, 1, 1], dilations=[1, 1], ceilMode=1))  # fmt: skip
named("UpsampleBicubic2dAA", lambda x, outputSize, alignCorners, scalesH, scalesW: F.interpolate(
    x, outputSize, mode="bicubic", align_corners=bool(alignCorners), antialias=True),
    *[one(x=IMAGE, outputSize=[3, 7], alignCorners=a, scalesH=0.0, scalesW=0.0) for a in (0, 1)])  # fmt: skip
named("UpsampleBicubic2dAAGrad", lambda gradOutput, outputSize, inputSize, alignCorners, scalesH, scalesW: gradient(
    lambda x: F.interpolate(x, outputSize, mode="bicubic", align_corners=bool(alignCorners), antialias=True), IMAGE, gradOutput),
    one(gradOutput=torch.randn(2, 3, 3, 7), outputSize=[3, 7], inputSize=[2, 3, 4, 5], alignCorners=False, scalesH=0.0, scalesW=0.0))  # fmt: skip
VOLUME = torch.randn(1, 2, 3, 4, 5)
NO_SCALES = one(scalesD=0.0, scalesH=0.0, scalesW=0.0)
named("UpsampleNearestExact3d", lambda self, outputSize, **_: F.interpolate(self, outputSize, mode="nearest-exact"),
      one(self=VOLUME, outputSize=[5, 6, 7], **NO_SCALES))  # fmt: skip
named("UpsampleNearestExact3dBackward", lambda gradOut, outputSize, inputSize, **_: gradient(
    lambda x: F.interpolate(x, outputSize, mode="nearest-exact"), VOLUME, gradOut),
    one(gradOut=torch.randn(1, 2, 5, 6, 7), outputSize=[5, 6, 7], inputSize=[1, 2, 3, 4, 5], **NO_SCALES))  # fmt: skip


LOGITS = torch.randn(6, 2, 4).log_softmax(-1)
named("CtcLoss", lambda logProbs, targets, inputLengths, targetlengths, blank, zeroInfinity: (  # the rest is for its gradient
    F.ctc_loss(logProbs, targets, inputLengths, targetlengths, blank, "none", bool(zeroInfinity)), None),
    one(logProbs=LOGITS, targets=torch.tensor([[1, 2], [3, 1]]), inputLengths=[6, 5], targetlengths=[2, 1], blank=0, zeroInfinity=False))  # fmt: skip
named("FakeQuantPerChannelAffineCachemask", lambda self, scale, zeroPoint, axis, quantMin, quantMax: (
    torch.fake_quantize_per_channel_affine(self, scale, zeroPoint, axis, quantMin, quantMax), None),
    one(self=IMAGE, scale=SCALES, zeroPoint=torch.tensor([0, 1, 2], dtype=torch.int32), axis=1, quantMin=-8, quantMax=7))  # fmt: skip


# ---- Sequences of numbers: the output says type and size ----
named("Arange", lambda start, end, step: torch.arange(start, end, step), one(start=1, end=9, step=2), one(start=0.5, end=2.0, step=0.25))
named("Range", lambda start, end, step: torch.arange(start, end + step / 2, step), one(start=0.5, end=2.0, step=0.25))
named("Linspace", lambda start, end, steps: torch.linspace(start, end, steps), one(start=0.5, end=2.0, steps=7))
named("LogSpace", lambda start, end, steps, base: torch.logspace(start, end, steps, base), one(start=0.5, end=2.0, steps=7, base=3.0))
named("Eye", lambda n, m: torch.eye(n, m), one(n=3, m=5))

# ---- Lists of tensors ----
for suffix, compute in {"div": torch.addcdiv, "mul": torch.addcmul}.items():
    for end in ("List", "ScalarList"):
        named(f"ForeachAddc{suffix}{end}", lambda x1, x2, x3, scalars, f=compute: (
            [f(a, b, c, value=s) for a, b, c, s in zip(x1, x2, x3, scalars.tolist(), strict=False)],),
            one(x1=THREE, x2=THREE, x3=THREE, scalars=torch.tensor([0.5, 1.0, 2.0])))  # fmt: skip
named("ForeachCopy", lambda x: (x,), one(x=THREE))
named("ForeachNonFiniteCheckAndUnscale", lambda scaledGrads, foundInf, invScale: ([g * invScale for g in scaledGrads], foundInf),
      one(scaledGrads=THREE, foundInf=torch.zeros(1), invScale=torch.tensor([0.5])))  # fmt: skip


@reference(*[one(varRef=A, mRef=B, vRef=POSITIVE, maxGradNormOptionalRef=x, grad=C, step=torch.tensor([3.0]), lr=0.125, beta1=0.875,
                 beta2=0.75, weightDecay=0.25, eps=0.0078125, amsgrad=x is not None, maximize=m)
             for x in (None, POSITIVE) for m in (0, 1)])  # fmt: skip
def ApplyAdamWV2(varRef: Tensor, mRef: Tensor, vRef: Tensor, maxGradNormOptionalRef: Any, grad: Tensor, step: Tensor, lr: float,
                 beta1: float, beta2: float, weightDecay: float, eps: float, amsgrad: int, maximize: int) -> Any:  # fmt: skip
    grad = -grad if maximize else grad
    m, v = beta1 * mRef + (1 - beta1) * grad, beta2 * vRef + (1 - beta2) * grad**2
    largest = torch.maximum(maxGradNormOptionalRef, v) if amsgrad else v
    corrected = (largest / (1 - beta2 ** step.item())).sqrt() + eps
    var = varRef * (1 - lr * weightDecay) - lr / (1 - beta1 ** step.item()) * m / corrected
    return var, m, v, largest if amsgrad else None
