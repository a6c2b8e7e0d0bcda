# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""Derivatives of any order and transforms of PyTorch around the operators: each is right, or it raises."""

import itertools
import re

import pytest

torch = pytest.importorskip("torch")
import aclgrad.torch  # noqa: E402
from aclgrad.torch.registration import Gradient  # noqa: E402
from tensors import CallOf, is_float, random, tensors_of  # noqa: E402
from torch._vmap_internals import _vmap  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_cases import CALLS, EXTREMES, OPERATORS, VARYING_AXES  # noqa: E402
from torch_operator_cases.grid_sampler import sample_arguments  # noqa: E402
from torch_operator_cases.multi_scale_deformable_attention import attention_arguments  # noqa: E402

func = torch.func
each_call = pytest.mark.parametrize("name", CALLS)


class Case:
    """A call as a function of its floating-point tensors alone."""

    def __init__(self, call, dtype=torch.float64):
        """Of a call by its name, or of an operator and its arguments."""
        if isinstance(call, str):
            operator, make = CALLS[call]
            call = operator, make(dtype)
        self.operator, self.arguments = call
        self.positions = [i for i, argument in enumerate(self.arguments) if is_float(argument)]
        self.floats = tuple(self.arguments[i] for i in self.positions)
        self.tangents = tuple(random(1, *t.shape, dtype=t.dtype)[0] for t in self.floats)
        self.all = tuple(range(len(self.floats)))

    def __call__(self, *floats):
        return self.of(self.operator, *floats)

    def of(self, operator, *floats):
        arguments = list(self.arguments)
        for i, tensor in zip(self.positions, floats, strict=True):
            arguments[i] = tensor
        return operator(*arguments)

    def loss(self, *floats):
        return self(*floats).square().sum()

    def learned(self):
        return [tensor.clone().requires_grad_() for tensor in self.floats]


@pytest.fixture
def case(name):
    return Case(name)


def leaves(result):
    return torch.utils._pytree.tree_leaves(result)


def check_close(actual, expected):
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        torch.testing.assert_close(one, other)


# ---- Forward differentiation, and derivatives of any order


@each_call
def test_numerical_derivatives(case):
    """Forward, and backward twice, also forward over backward; with tangents for all and for each alone."""
    assert torch.autograd.gradcheck(case, case.learned(), check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(case, case.learned(), check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("sides", [(5, 4), (1, 1), (3, 5, 4), (1, 1, 1)])
def test_numerical_derivatives_of_grid_sample(mode, padding_mode, align_corners, sides):
    """Of places far outside, too."""
    axes = len(sides)
    if axes == 3 and mode == "bicubic":
        pytest.skip("images alone have it")
    image = random(2, 2, *sides, dtype=torch.float64).requires_grad_()
    grid = (1.7 * random(2, 2, 3, 2, 3, dtype=torch.float64))[..., :axes]
    grid = (grid if axes == 3 else grid[:, :, :, 0]).clone().requires_grad_()

    def sample(*tensors):
        return aclgrad.torch.grid_sample(*tensors, mode, padding_mode, align_corners)

    assert torch.autograd.gradcheck(sample, (image, grid), check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(sample, (image, grid), check_fwd_over_rev=True, fast_mode=True)


TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}


@each_call
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_jvp_is_the_adjoint_of_vjp(name, dtype):
    case = Case(name, dtype)
    result, tangent = func.jvp(case, case.floats, case.tangents)
    assert torch.equal(result, case(*case.floats)) and tangent.dtype == dtype
    for i in case.all:
        difference, scale = adjoint_difference(case, i)
        assert difference <= TOLERANCE[dtype] * scale


def adjoint_difference(case, i):
    """Between the products of both derivatives by one of the tensors; and the sum of these products' terms."""

    def of_one(tensor):
        return case(*case.floats[:i], tensor, *case.floats[i + 1 :])

    _, along = func.jvp(of_one, (case.floats[i],), (case.tangents[i],))
    grad_output = random(*along.shape, dtype=along.dtype)
    _, pull = func.vjp(of_one, case.floats[i])
    forward, backward = along.double() * grad_output, pull(grad_output)[0].double() * case.tangents[i]
    return abs(forward.sum() - backward.sum()).item(), (forward.abs().sum() + backward.abs().sum()).item()


each_extreme = pytest.mark.parametrize("name", EXTREMES)
in_float32_and_float64 = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@pytest.fixture(params=[False, True], ids=["kernel", "composed"])
def is_composed(request, monkeypatch):
    """Once as it is, and once as where no kernel has the derivative."""
    if request.param:
        monkeypatch.setattr(Gradient, "_double_backward_for", lambda *_: None)
    return request.param


@each_extreme
@in_float32_and_float64
def test_jvp_is_the_adjoint_of_vjp_at_extremes(name, dtype, is_composed):
    for operator, usual, extremes in EXTREMES[name](dtype):
        case = Case((operator, usual))
        scales = []
        for i in case.all:
            difference, scale = adjoint_difference(case, i)
            assert difference <= TOLERANCE[dtype] * scale, usual
            scales.append(scale)
        for arguments in extremes:
            case = Case((operator, arguments))
            for i, scale in enumerate(scales):
                assert adjoint_difference(case, i)[0] <= TOLERANCE[dtype] * scale, arguments


def second_gradients(operator, arguments):
    case = Case((operator, arguments))
    grad_output = random(*case(*case.floats).shape, dtype=case.floats[0].dtype)
    _, pull_twice = func.vjp(lambda c, *floats: func.vjp(case, *floats)[1](c), grad_output, *case.floats)
    return pull_twice(case.tangents)


@each_extreme
@in_float32_and_float64
def test_composed_second_gradients_are_the_kernels_at_extremes(name, dtype, monkeypatch):
    for operator, usual, extremes in EXTREMES[name](dtype):
        if not extremes:
            continue
        scales = [gradient.double().norm() for gradient in second_gradients(operator, usual)]
        for arguments in (usual, *extremes):
            expected = second_gradients(operator, arguments)
            with monkeypatch.context() as patch:
                patch.setattr(Gradient, "_double_backward_for", lambda *_: None)
                actual = second_gradients(operator, arguments)
            for one, other, scale in zip(actual, expected, scales, strict=True):
                assert (one.double() - other).norm() <= TOLERANCE[dtype] * scale, arguments


def with_odd_places(places):
    places = places.clone()
    places[0, 0, 0, ..., 0], places[0, 1, 0, ..., 1], places[0, 1, 1, ..., 0] = torch.nan, torch.inf, -torch.inf
    places[0, 2, 0, ..., 0], places[0, 2, 1, ..., 1] = 1e6, -1.7e308  # which is infinite in pixels
    return places


def check_slope(function, tensor):
    """As the gradient has it, which has none where a coordinate is not a number."""
    tangent = random(*tensor.shape, dtype=tensor.dtype)
    _, slope = func.jvp(function, (tensor,), (tangent,))
    result, pull = func.vjp(function, tensor)
    grad_output = random(*result.shape, dtype=result.dtype)
    (gradient,) = pull(grad_output)
    torch.testing.assert_close((slope * grad_output).sum(), (gradient * tangent).sum())


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_jvp_of_grid_sample_at_odd_places(mode, padding_mode):
    image, grid, *_ = sample_arguments(torch.float64)
    grid = with_odd_places(grid)
    for align in (False, True):
        check_slope(lambda g, a=align: aclgrad.torch.grid_sample(image, g, mode, padding_mode, a), grid)
        check_slope(lambda i, a=align: aclgrad.torch.grid_sample(i, grid, mode, padding_mode, a), image)


def test_jvp_of_attention_at_odd_places():
    value, shapes, starts, locations, weights = attention_arguments(torch.float64)
    check_slope(
        lambda places: aclgrad.torch.multi_scale_deformable_attention(value, shapes, starts, places, weights),
        with_odd_places(locations),
    )


@each_call
def test_dual_tensors_without_torch_func(case):
    _, expected = func.jvp(case, case.floats, case.tangents)
    for floats in (case.floats, case.learned()):
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(*pair) for pair in zip(floats, case.tangents, strict=True)]
            check_close(forward_ad.unpack_dual(case(*duals)).tangent, expected)
            with torch.no_grad():
                check_close(forward_ad.unpack_dual(case(*duals)).tangent, expected)


@each_call
def test_jacobians_and_hessians(case):
    jacobian, hessian = torch.autograd.functional.jacobian, torch.autograd.functional.hessian
    expected, of_loss = jacobian(case, case.floats), hessian(case.loss, case.floats)
    for transform in (func.jacrev, func.jacfwd):
        check_close(transform(case, case.all)(*case.floats), expected)
    for outer, inner in itertools.product((func.jacrev, func.jacfwd), repeat=2):
        check_close(outer(inner(case.loss, case.all), case.all)(*case.floats), of_loss)
    for strategy in ("reverse-mode", "forward-mode"):
        check_close(jacobian(case, case.floats, vectorize=True, strategy=strategy), expected)
        check_close(hessian(case.loss, case.floats, vectorize=True, outer_jacobian_strategy=strategy), of_loss)


@each_call
def test_vmap_over_no_calls(case):
    floats = [tensor.new_zeros(0, *tensor.shape) for tensor in case.floats]
    assert func.vmap(case)(*floats).shape == (0, *case(*case.floats).shape)
    gradients = func.vmap(func.grad(case.loss, case.all))(*floats)
    assert [gradient.shape for gradient in gradients] == [tensor.shape for tensor in floats]


def kernels_of(call):
    """Those of ours that a call runs, in their order."""
    kernels = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            if function.namespace == "aclgrad":
                kernels.append(function.name())
            return function(*arguments, **(keywords or {}))

    with Mode():
        call()
    return kernels


@pytest.mark.parametrize("name", ["attention", "compress", "sample", "sample a volume"])
def test_second_backward_runs_one_kernel(name, case):
    floats = case.learned()
    gradients = torch.autograd.grad(case.loss(*floats), floats, create_graph=True)
    loss = sum(gradient.square().sum() for gradient in gradients)
    ours = sorted(kernels_of(lambda: torch.autograd.grad(loss, floats)))
    # The gradient of the gradient, and that of the result, as the loss' square brings the first result in.
    assert ours == [f"aclgrad::{OPERATORS[name]}_{what}" for what in ("backward", "double_backward")]


@each_call
def test_third_derivatives(case):
    """Of all floating-point tensors along their tangents, in any nesting, and as differences of second ones."""

    def cubed(*floats):
        return case(*floats).pow(3).sum()

    def forward(function):
        return lambda *floats: func.jvp(function, floats, case.tangents)[1]

    def backward(function):
        def along(*floats):
            gradients = func.grad(function, case.all)(*floats)
            return sum((gradient * tangent).sum() for gradient, tangent in zip(gradients, case.tangents, strict=True))

        return along

    def after(step):
        return [tensor + step * tangent for tensor, tangent in zip(case.floats, case.tangents, strict=True)]

    step = 1e-5
    twice = backward(backward(cubed))
    difference = (twice(*after(step)) - twice(*after(-step))) / (2 * step)
    for first, second, third in itertools.product((backward, forward), repeat=3):
        thrice = third(second(first(cubed)))(*case.floats)
        torch.testing.assert_close(thrice, difference, rtol=1e-5, atol=0)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["border", "reflection"])
@pytest.mark.parametrize("axes", [2, 3])
def test_second_derivatives_where_a_place_is_clipped_by_nothing(axes, padding_mode, align_corners):
    """At the centre of a pixel of the border, where clipping begins: x is one of two constants."""
    image = random(1, 1, *(4,) * axes, dtype=torch.float64)

    def sample(grid):
        grid = grid.view(1, *(1,) * axes, axes)
        return aclgrad.torch.grid_sample(image, grid, "bilinear", padding_mode, align_corners).sum()

    for x in (1.0, -1.0) if align_corners else (0.75, -0.75):
        grid = torch.tensor([x, 0.3, -0.2][:axes], dtype=torch.float64)
        expected = func.jacrev(func.jacrev(sample))(grid)
        assert not expected[0].any() and not expected[:, 0].any()
        for outer, inner in itertools.product((func.jacrev, func.jacfwd), repeat=2):
            torch.testing.assert_close(outer(inner(sample))(grid), expected)


def grid_sample_twice(*tensors):
    """The second gradients of bicubic sampling as an operator of their own, of all its floating-point tensors."""
    return torch.ops.aclgrad.grid_sample_double_backward(*tensors, "bicubic", "zeros", False, [True] * 3)


def second_arguments(dtype=torch.float64):
    image, grid, *_ = sample_arguments(dtype)
    shapes = (2, 3, 3, 2), image.shape, grid.shape
    grad_output, *grad_grads = (random(*shape, 5, dtype=dtype)[..., i] for i, shape in enumerate(shapes))
    return grad_output, image, grid, *grad_grads


def test_derivatives_of_second_gradients():
    arguments = [tensor.clone().requires_grad_() for tensor in second_arguments()]
    options = {"check_forward_ad": True, "fast_mode": True}
    assert torch.autograd.gradcheck(grid_sample_twice, arguments, **options)
    assert torch.autograd.gradgradcheck(grid_sample_twice, arguments, fast_mode=True)
    for absent in (3, 4):
        given = [argument for i, argument in enumerate(arguments) if i != absent]

        def without(*tensors, absent=absent):
            return grid_sample_twice(*tensors[:absent], None, *tensors[absent:])

        assert torch.autograd.gradcheck(without, given, **options)
    assert torch.autograd.gradcheck(lambda *t: grid_sample_twice(*t, None, None), arguments[:3], **options)


def test_second_gradients_under_vmap():
    arguments = second_arguments(torch.float32)
    pairs = [torch.stack([t, 2 * t]) for t in arguments]
    mapped = func.vmap(grid_sample_twice)(*pairs)
    for i in range(2):
        check_close([result[i] for result in mapped], grid_sample_twice(*(pair[i] for pair in pairs)))


@each_call
def test_linearize(case):
    _, push = func.linearize(case, *case.floats)
    check_close(push(*case.tangents), func.jvp(case, case.floats, case.tangents)[1])


# ---- vmap


def stacked(case, mapped, axis):
    """Three calls in one: tensors, and the axes along which they are mapped."""
    tensors = [
        torch.stack([x, 2 * x, x.roll(1, -2)], axis) if is_mapped else x
        for x, is_mapped in zip(case.floats, mapped, strict=True)
    ]
    return tensors, tuple(axis if is_mapped else None for is_mapped in mapped)


def in_a_loop(function, tensors, axes):
    results = [
        function(*(x if axis is None else x.select(axis, i) for x, axis in zip(tensors, axes, strict=True)))
        for i in range(3)
    ]
    return [torch.stack(parts) for parts in zip(*map(leaves, results), strict=True)]


def some_mapped(case):
    return [mapped for mapped in itertools.product((False, True), repeat=len(case.floats)) if any(mapped)]


@each_call
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vmap_is_a_loop(case, axis):
    for mapped in some_mapped(case):
        tensors, axes = stacked(case, mapped, axis)
        check_close([func.vmap(case, axes)(*tensors)], in_a_loop(case, tensors, axes))
        gradient = func.grad(case.loss, case.all)
        check_close(func.vmap(gradient, axes)(*tensors), in_a_loop(gradient, tensors, axes))


@each_call
def test_gradients_through_vmap(case):
    for mapped in some_mapped(case):
        tensors, axes = stacked(case, mapped, 0)
        expected = func.grad(lambda *t, axes=axes: in_a_loop(case.loss, t, axes)[0].sum(), case.all)(*tensors)
        actual = func.grad(lambda *t, axes=axes: func.vmap(case.loss, axes)(*t).sum(), case.all)(*tensors)
        check_close(actual, expected)


@each_call
def test_vmap_runs_one_kernel(name, case):
    tensors, axes = stacked(case, [True] * len(case.floats), 0)
    assert kernels_of(lambda: func.vmap(case, axes)(*tensors)) == [f"aclgrad::{OPERATORS[name]}"]


@each_call
def test_vmap_in_vmap(case):
    inner, _ = stacked(case, [True] * len(case.floats), 0)
    outer = [torch.stack([x, -x]) for x in inner]
    expected = torch.stack([func.vmap(case)(*(x[i] for x in outer)) for i in range(2)])
    check_close(func.vmap(func.vmap(case))(*outer), expected)


@each_call
def test_vmap_of_indices_is_refused(case):
    indices = [i for i, a in enumerate(case.arguments) if isinstance(a, torch.Tensor) and not is_float(a)]
    for position in indices:
        axes = [0 if i == position else None for i in range(len(case.arguments))]
        arguments = [torch.stack([a, a]) if i == position else a for i, a in enumerate(case.arguments)]
        with pytest.raises(ValueError, match="expected one for all calls under vmap, got a mapped tensor"):
            func.vmap(case.operator, tuple(axes))(*arguments)


def wrong_shapes(tensor):
    yield tensor[0]
    yield tensor[..., 0]
    yield tensor[None]
    yield tensor[..., 1:]
    yield tensor.flatten()[0]


@each_call
@pytest.mark.parametrize("axis", [0, -1])
def test_vmap_says_the_shapes_of_one_call(name, axis):
    """And not of what it makes of all."""
    function, make = CALLS[name]
    right = make()
    refused = 0
    for position, argument in enumerate(right):
        for wrong in wrong_shapes(argument) if is_float(argument) else ():

            def call(tensor, position=position):
                return function(*(tensor if i == position else a for i, a in enumerate(right)))

            try:
                call(wrong)
            except ValueError as error:
                refused += 1
                mapped = torch.stack([wrong] * 3, axis)
                for transformed, stack in (
                    (func.vmap(call, axis), mapped),
                    (func.vmap(func.vmap(call, axis)), torch.stack([mapped] * 2)),
                    (func.vmap(call, axis), torch.stack([wrong], axis).narrow(axis, 0, 0)),
                ):
                    with pytest.raises(ValueError, match=f"^{re.escape(str(error))}$"):
                        transformed(stack)
    assert refused >= 6


# ---- Together with other features


@each_call
def test_transforms_under_autocast(name):
    case = Case(name, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        expected = torch.autograd.functional.jacobian(case, case.floats)
        check_close(func.jacrev(case, case.all)(*case.floats), expected)
        _, tangent = func.jvp(case, case.floats, case.tangents)
        assert tangent.dtype == case(*case.floats).dtype


@each_call
def test_compiled_transforms_are_right_or_refused(name, case):
    tensors, axes = stacked(case, [True] * len(case.floats), 0)
    for function, arguments in (
        (func.grad(case.loss, case.all), case.floats),
        (lambda *t: func.jvp(case, t, case.tangents), case.floats),
        (func.vmap(lambda *t: case(*t), axes), tensors),  # PyTorch 2.10 traces functions alone
    ):
        torch._dynamo.reset()
        data_decides_sizes = name == "compress"
        try:
            actual = torch.compile(function, backend="aot_eager", fullgraph=not data_decides_sizes)(*arguments)
        except Exception as error:
            assert data_decides_sizes and ("aclgrad" in str(error) or "atching rule" in str(error))
        else:
            check_close(actual, function(*arguments))


@each_call
def test_operators_called_directly(name, case):
    """Without the functions of aclgrad.torch, as in an exported program."""
    operator = getattr(torch.ops.aclgrad, OPERATORS[name])
    kind = ("ends",) if name.startswith("bias") else ()

    def direct(*floats):
        return case.of(lambda *arguments: operator(*arguments, *kind), *floats)

    assert torch.autograd.gradcheck(direct, case.learned(), check_forward_ad=True, fast_mode=True)
    tensors, axes = stacked(case, [True] * len(case.floats), 0)
    check_close(func.jvp(direct, case.floats, case.tangents), func.jvp(case, case.floats, case.tangents))
    gradient, expected = (func.grad(lambda *t, f=f: f(*t).sum(), case.all) for f in (direct, case))
    check_close(gradient(*case.floats), expected(*case.floats))
    check_close(func.vmap(gradient, axes)(*tensors), in_a_loop(expected, tensors, axes))
    check_close([func.vmap(direct, axes)(*tensors)], in_a_loop(case, tensors, axes))


@each_call
def test_batched_gradients_of_autograd(case):
    """They come from a vmap that PyTorch has kept from before torch.func."""
    learned = case.learned()
    result = case(*learned)
    grads = torch.stack([result, 2 * result, random(*result.shape, dtype=result.dtype)]).detach().requires_grad_()
    batched = torch.autograd.grad(result, learned, grads, is_grads_batched=True, create_graph=True)
    each = [torch.autograd.grad(result, learned, grad, create_graph=True) for grad in grads]
    check_close(batched, [torch.stack(parts) for parts in zip(*each, strict=True)])
    inputs = [grads, *learned]
    actual, expected = (
        torch.autograd.grad(sum(r.square().sum() for r in results), inputs, retain_graph=True, materialize_grads=True)
        for results in (batched, itertools.chain(*each))
    )
    check_close(actual, expected)


def test_old_vmap_in_another():
    case = Case("sample")
    image, grid = case.floats
    images = torch.stack([torch.stack([image, 2 * image, -image]), torch.stack([image.flip(2)] * 3)])
    mapped = _vmap(_vmap(case, in_dims=(0, None)), in_dims=(0, None))(images.requires_grad_(), grid)
    expected = torch.stack([torch.stack([case(one, grid) for one in some]) for some in images])
    check_close([mapped], [expected])
    check_close(torch.autograd.grad(mapped.sum(), images), torch.autograd.grad(expected.sum(), images))


@each_call
def test_checkpointing(case):
    learned = case.learned()
    result = torch.utils.checkpoint.checkpoint(case.loss, *learned, use_reentrant=False)
    check_close(torch.autograd.grad(result, learned), func.grad(case.loss, case.all)(*case.floats))


@each_call
def test_exported_with_any_sizes(name, case):
    """One program for other sizes of what may vary."""
    call, tensors = CallOf(case.operator, case.arguments), tensors_of(case.arguments)
    axes = {position: axis % tensors[position].dim() for position, axis in VARYING_AXES[name].items()}
    shapes = [{axes[i]: torch.export.Dim.AUTO} if i in axes else {} for i in range(len(tensors))]
    exported = torch.export.export(call, tensors, dynamic_shapes=(tuple(shapes),))
    assert any(f"aclgrad.{OPERATORS[name]}" in str(node.target) for node in exported.graph.nodes)
    longer = [torch.cat([t, t], axes[i]) if i in axes else t for i, t in enumerate(tensors)]
    check_close(exported.module()(*longer), call(*longer))
