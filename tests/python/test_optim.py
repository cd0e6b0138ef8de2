"""sotto.optim: the steps of optimisers, compared with plain arithmetic."""

import numpy
import pytest
import torch


@pytest.mark.parametrize(("lr", "decay", "momentum"), [(0.1, 0.0, 0.9), (0.05, 0.01, 0.9), (0.3, 0.2, 0.0), (0.1, 0.05, 0.5)])
def test_dgc_decays_weights_with_separate_momentum(package, lr, decay, momentum):
    """d = m d + wd p; p -= lr (g + d), also for groups with their own options and parameters without a gradient."""
    generator = numpy.random.default_rng(1)
    shapes = [(7, 5), (5,), (2, 3, 4)]
    wanted = [generator.standard_normal(shape).astype(numpy.float32) for shape in shapes]
    pulls = [numpy.zeros_like(w) for w in wanted]
    params = [torch.nn.Parameter(torch.from_numpy(w.copy())) for w in wanted]
    unused = torch.nn.Parameter(torch.ones(3))
    optimiser = package.optim.DGCSGD([{"params": params[:2]}, {"params": [params[2], unused], "weight_decay": 0.5, "lr": 0.01}],
                                     lr=lr, weight_decay=decay, decay_momentum=momentum)
    saved = None
    for step in range(6):
        gradients = [generator.standard_normal(shape).astype(numpy.float32) for shape in shapes]
        for i, (param, gradient) in enumerate(zip(params, gradients)):
            rate, weight_decay = (lr, decay) if i < 2 else (0.01, 0.5)
            param.grad = torch.from_numpy(gradient)
            pulls[i] = momentum * pulls[i] + weight_decay * wanted[i]
            wanted[i] = wanted[i] - rate * (gradient + pulls[i])
        optimiser.step()
        if step == 2:  # a restart
            saved = optimiser.state_dict()
            optimiser = package.optim.DGCSGD([{"params": params[:2]}, {"params": [params[2], unused]}], lr=1)
            optimiser.load_state_dict(saved)
        for param, values, gradient in zip(params, wanted, gradients):
            numpy.testing.assert_allclose(param.detach().numpy(), values, rtol=1e-5, atol=1e-6)
            numpy.testing.assert_array_equal(param.grad.numpy(), gradient)
    assert torch.equal(unused, torch.ones(3))


@pytest.mark.parametrize("nesterov", [False, True])
def test_with_momentum_in_gradients_it_is_sgd(package, nesterov):
    p, q = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    ours = package.optim.DGCSGD([p], lr=0.1, weight_decay=0.2, nesterov=nesterov)
    theirs = torch.optim.SGD([q], lr=0.1, weight_decay=0.2, momentum=0.9, nesterov=nesterov)
    u = torch.zeros(4)
    for step in range(6):
        q.grad = torch.arange(4.0) - step
        u = 0.9 * (u + q.grad) if nesterov else 0.9 * u + q.grad  # as the memory `momentum`
        p.grad = u + q.grad if nesterov else u.clone()
        ours.step()
        theirs.step()
        torch.testing.assert_close(p, q)


def test_bad_options(package):
    param = torch.nn.Parameter(torch.ones(3))
    for options in ({"lr": -1}, {"lr": "x"}, {"lr": 0.1, "weight_decay": -1}, {"lr": 0.1, "decay_momentum": 1.0},
                    {"lr": torch.tensor(-0.1)}, {"lr": torch.ones(2)}, {"lr": 0.1, "nesterov": 1}):
        with pytest.raises(package.ConfigError, match=list(options)[-1]):
            package.optim.DGCSGD([param], **options)
        with pytest.raises(package.ConfigError, match=list(options)[-1]):
            package.optim.DGCSGD([{"params": [param], **options}], lr=0.1)
    optimiser = package.optim.DGCSGD([param], lr=0.1)
    with pytest.raises(package.ConfigError, match="lr=-1"):
        optimiser.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))], "lr": -1})
    assert len(optimiser.param_groups) == 1


@pytest.mark.parametrize("number", [numpy.float32, numpy.float64, torch.tensor, lambda x: torch.tensor([x])],
                         ids=["float32", "float64", "tensor", "tensor of one"])
def test_numbers_of_other_libraries(package, number):
    param = torch.nn.Parameter(torch.ones(3))
    optimiser = package.optim.DGCSGD([param], lr=number(0.5), weight_decay=number(0.5))
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, 1, 0.5)
    for wanted in (0.75, 0.75 - 0.25 * (0.45 + 0.375)):
        param.grad = torch.zeros(3)
        optimiser.step()
        scheduler.step()
        torch.testing.assert_close(param.detach(), torch.full((3,), wanted))


def test_the_state_of_another_optimizer_is_refused(package):
    param = torch.nn.Parameter(torch.ones(3))
    optimiser = package.optim.DGCSGD([param], lr=0.1)
    with pytest.raises(package.ConfigError, match="wants a DGCSGD's"):
        optimiser.load_state_dict(torch.optim.SGD([param], lr=7).state_dict())
    assert optimiser.param_groups[0]["lr"] == 0.1
    older = optimiser.state_dict()
    del older["param_groups"][0]["nesterov"]
    optimiser.load_state_dict(older)
    param.grad = torch.ones(3)
    optimiser.step()


def test_sparse_gradients(package):
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    before = embedding.weight.detach().clone()
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(package.ConfigError, match=r"weight_decay=0.1: the gradient of a parameter of shape \(4, 2\) is sparse"):
        package.optim.DGCSGD(embedding.parameters(), lr=0.1, weight_decay=0.1).step()
    assert torch.equal(embedding.weight, before)
    package.optim.DGCSGD(embedding.parameters(), lr=0.5).step()
    torch.testing.assert_close(before[1] - embedding.weight[1], torch.full((2,), 0.5))


def test_a_closure(package):
    param = torch.nn.Parameter(torch.tensor([2.0]))
    optimiser = package.optim.DGCSGD([param], lr=0.5)

    def closure():
        optimiser.zero_grad()
        loss = (param ** 2).sum()
        loss.backward()
        return loss

    assert optimiser.step(closure).item() == 4.0 and param.item() == 0.0
