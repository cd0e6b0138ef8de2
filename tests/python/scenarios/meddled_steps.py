"""Loops that do more between two steps than a plain one: change parameters by hand, ask for the mean, nest steps."""

import gc
import warnings

import torch
import torch.distributed as dist

import sotto

from .steps import LR, Point, wrap


def within_average():
    """What is said to that which would take the mean for this rank's own; and that a state is of the own one."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), LR)
    local = sotto.LocalSGD(module, optimizer, every=4)
    learned, said = local.state_dict(), []
    for _ in range(3):
        module().backward()
        optimizer.step()
    before = module.p.tolist()
    with local.average():
        for call in (local.average().__enter__, local.take_average, lambda: local.load_state_dict(learned), optimizer.step):
            try:
                call()
            except sotto.ConfigError as error:
                said.append(str(error))
        state = local.state_dict()
    after = module.p.tolist()
    local.load_state_dict(state)
    return [said, before, after, module.p.tolist()]


class Derived(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


def nested_steps(how):
    """Parameters after steps of SGD, and of a class derived from it, of which one step raises within; and what was said."""
    ends, said = [], []
    for kind in (torch.optim.SGD, Derived):
        module = Point()
        optimizer = kind(module.parameters(), LR)
        owner, model = wrap(module, how, optimizer)
        for step in range(4):
            if step == 2 and kind is Derived:
                try:
                    optimizer.step(lambda: {}["no gradients today"])
                except KeyError as error:
                    said.append(error.args[0])
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
        ends.append(module.p.tolist())
    try:
        owner._steps.stepper.end()
    except sotto.ConfigError as error:
        said.append(str(error)[:len("no step has begun that could end")])
    return [*ends, said]


def weights_changed_by_hand():
    """A clamp after each step counts as part of the next one: at the start of a step all hold what gossip made of it."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), 0.0)
    model = sotto.GossipDataParallel(module, "push_sum", "complete")
    with torch.no_grad():
        module.p.add_(1.0 + dist.get_rank())
    model().backward()
    optimizer.step()
    with torch.no_grad():
        module.p.add_(dist.get_rank())
    model().backward()
    optimizer.step()
    return module.p.tolist()


def changed_by_hand_and_saved(how, **options):
    """A clamp after a step, then a state: the results of a run that continues, and of one that loads the state."""
    ends = []
    for resumes in (False, True):
        module = Point()
        optimizer = torch.optim.SGD(module.parameters(), LR)
        owner, model = wrap(module, how, optimizer, **options)
        if resumes:
            sotto.load_state_dict(owner, state)
            loaded = module.p.tolist()
        else:
            model().backward()
            optimizer.step()
            module.p.data.clamp_(-0.1 * dist.get_rank(), 0.2)
            saved, state = module.p.tolist(), sotto.state_dict(owner)
        for _ in range(4):
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
        ends.append(module.p.tolist())
    return [*ends, loaded, saved]


def changed_by_hand_and_agreed(how, **options):
    """A change after a step on ranks but 0, all agreed, and a step that leads nowhere."""
    module = Point()
    optimizer = torch.optim.SGD(module.parameters(), LR)
    owner, model = wrap(module, how, optimizer, **options)
    model().backward()
    optimizer.step()
    module.p.data.add_(dist.get_rank())
    seen = [module.p.tolist()]
    owner.take_average()
    seen.append(module.p.tolist())
    optimizer.param_groups[0]["lr"] = 0.0
    model().backward()
    optimizer.step()
    return [*seen, module.p.tolist()]


class Interrupted:
    """A stepper during whose show_mean() somebody presses Ctrl-C."""

    def __init__(self, stepper):
        self._stepper = stepper

    def __getattr__(self, name):
        return getattr(self._stepper, name)

    def show_mean(self):
        self._stepper.show_mean()
        raise KeyboardInterrupt


def interrupted_average():
    """This rank's vector before and after an interrupted average(), and in another one."""
    module = Point()
    local = sotto.LocalSGD(module, torch.optim.SGD(module.parameters(), LR))
    module.p.data += dist.get_rank()
    seen, stepper = [module.p.tolist()], local._steps.stepper
    local._steps.stepper = Interrupted(stepper)
    try:
        local.average().__enter__()
    except KeyboardInterrupt:
        seen.append(module.p.tolist())
    local._steps.stepper = stepper
    with local.average():
        seen.append(module.p.tolist())
    return seen


class Sam(torch.optim.Optimizer):
    """Steps of a base optimizer with gradients from a little further up (Foret et al., ICLR 2021), as users write it."""

    def __init__(self, parameters, base, **options):
        super().__init__(parameters, options)
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        for p in self.param_groups[0]["params"]:
            self.state[p]["before"] = p.data.clone()
            p.add_(p.grad, alpha=0.1)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for p in self.param_groups[0]["params"]:
            p.data = self.state[p]["before"]
        self.base_optimizer.step()
        self.zero_grad()

    def step(self, closure):
        closure = torch.enable_grad()(closure)
        closure()
        self.first_step()
        closure()
        self.second_step()


def exchanging(how, point, optimizer):
    """A wrapper that is given this optimizer and exchanges in each step, and the module that the loop calls."""
    if how == "local":
        return sotto.LocalSGD(point, optimizer, every=1), point
    if how == "diloco":
        return sotto.DiLoCo(point, optimizer, every=1), point
    model = sotto.GossipDataParallel(point, how, "complete", optimizer=optimizer)
    return model, model


def sam(how):
    """This rank's vector and the number of steps, for the ways in which SAM is used, and where its base optimizer is given."""
    ends = []
    for given, calls in (("sam", "step"), ("sam", "two"), ("base", "two")):
        point = Point()
        optimizer = Sam(point.parameters(), torch.optim.SGD, lr=LR)
        owner, model = exchanging(how, point, optimizer if given == "sam" else optimizer.base_optimizer)
        for _ in range(3):
            if calls == "step":
                optimizer.step(lambda: model().backward())
                continue
            model().backward()
            optimizer.first_step()
            model().backward()
            optimizer.second_step()
        ends.append([point.p.tolist(), owner.stats().steps])
    return ends


def phases(how, anew):
    """This rank's vector and the numbers of steps after two phases, each with its own optimizer. `anew`: and with its own
    wrapper."""
    point = Point()
    owners = []
    for phase in range(2):
        optimizer = torch.optim.SGD(point.parameters(), LR)
        if phase == 0:
            first = optimizer  # as a scheduler keeps it
        if phase == 0 or anew:
            owner, model = exchanging(how, point, optimizer)
            owners.append(owner)
        for _ in range(2):
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
    assert first is not optimizer
    return [point.p.tolist(), [owner.stats().steps for owner in owners]]


class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.points = torch.nn.ModuleList([Point(), Point()])

    def forward(self):
        return sum(point() for point in self.points)


def optimizers_of_parts():
    """Two optimizers take turns, each with one of two vectors, and the first is given: the number of steps, and both vectors after
    one more step of it. What is said when the second takes more steps alone."""
    pair = Pair()
    optimizers = [torch.optim.SGD(point.parameters(), LR) for point in pair.points]
    local = sotto.LocalSGD(pair, optimizers[0], every=1)
    for _ in range(3):
        pair.zero_grad()
        pair().backward()
        for optimizer in optimizers:
            optimizer.step()
    steps = local.stats().steps
    optimizers[0].step()
    ends = [point.p.tolist() for point in pair.points]
    optimizers[1].step()
    try:
        optimizers[1].step()
    except sotto.ConfigError as error:
        return [steps, ends, str(error)]


def left_alone(again):
    """What is warned of in steps of a second optimizer, if nobody holds what mixed the parameters, nor the first optimizer. `again`:
    the module is wrapped again."""
    point = Point()
    optimizer = torch.optim.SGD(point.parameters(), LR)
    sotto.LocalSGD(point, optimizer, every=1)
    for _ in range(2):
        point().backward()
        optimizer.step()
    optimizer = torch.optim.SGD(point.parameters(), LR)
    gc.collect()
    if again:
        sotto.LocalSGD(point, optimizer, every=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            optimizer.step()
    return [str(one.message) for one in caught]
