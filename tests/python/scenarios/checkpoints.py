"""States that are saved and loaded, on the same and on another number of ranks."""

import logging
import warnings

import torch
import torch.distributed as dist

import sotto

from .averages import owed
from .net import digest, make, Net, train


RESUMED = {"schedule": [(0, "none"), (2, "ef | topk(0.1) | qsgd(4)")], "rules": {"*.bias": "int8"}, "seed": 5}


def resumable():
    ddp = make()
    return ddp, torch.optim.SGD(ddp.parameters(), 0.1, momentum=0.9)


def straight(steps):
    ddp, optimiser = resumable()
    sotto.compress(ddp, **RESUMED)
    train(ddp, steps, optimiser=optimiser)
    return digest(ddp)


def save(steps, folder):
    ddp, optimiser = resumable()
    sotto.compress(ddp, **RESUMED)
    train(ddp, steps, optimiser=optimiser)
    torch.save({"model": ddp.state_dict(), "optimiser": optimiser.state_dict(), "sotto": sotto.state_dict(ddp)},
               f"{folder}/rank{dist.get_rank()}")


def resume(first, steps, folder, rank=None):
    ddp, optimiser = resumable()
    sotto.compress(ddp, **RESUMED)
    state = torch.load(f"{folder}/rank{dist.get_rank() if rank is None else rank}", weights_only=True)
    ddp.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    sotto.load_state_dict(ddp, state["sotto"])
    train(ddp, steps, first=first, optimiser=optimiser)
    return digest(ddp)


def save_gathered(steps, path):
    """Like save(), but rank 0 writes all states to one file. Returns the number of states that this rank got."""
    ddp, optimiser = resumable()
    sotto.compress(ddp, **RESUMED)
    train(ddp, steps, optimiser=optimiser)
    states = sotto.state_dict(ddp, gather=True)
    if dist.get_rank() == 0:
        torch.save({"model": ddp.state_dict(), "optimiser": optimiser.state_dict(), "sotto": states}, path)
    dist.barrier()
    return len(states)


def resume_gathered(first, steps, path):
    ddp, optimiser = resumable()
    sotto.compress(ddp, **RESUMED)
    state = torch.load(path, weights_only=True)
    ddp.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    sotto.load_state_dict(ddp, state["sotto"])
    train(ddp, steps, first=first, optimiser=optimiser)
    return digest(ddp)


def gossip_gathered():
    """A run without a break, and one that loads its models from one list of states."""
    ends = []
    for broken in (False, True):
        torch.manual_seed(3)
        net = torch.nn.Linear(6, 3)
        optimiser = torch.optim.SGD(net.parameters(), 0.1)
        model = sotto.GossipDataParallel(net, "push_sum", optimizer=optimiser)

        def learn(first, steps):
            for step in range(first, first + steps):
                optimiser.zero_grad()
                model(torch.full((4, 6), 1.0 + step + dist.get_rank())).square().mean().backward()
                optimiser.step()

        learn(0, 2)
        if broken:
            states = [sotto.state_dict(model, gather=True)]
            dist.broadcast_object_list(states, src=0)
            learn(5, 1)
            sotto.load_state_dict(model, states[0])
        learn(2, 2)
        ends.append(digest(net))
    return ends


def stats_in_parts():
    """The statistics of three steps, of the next two, and twice of all five."""
    ddp = sotto.compress(make(), "ef | topk(0.1)")
    parts = []
    for first, steps in ((0, 3), (3, 2)):
        train(ddp, steps, first=first)
        parts.append(sotto.stats(ddp, reset=True).__dict__)
    whole = sotto.compress(make(), "ef | topk(0.1)")
    train(whole, 5)
    return [*parts, sotto.stats(ddp).__dict__, sotto.stats(whole).__dict__]


def reported(kind, steps, every, apart=2):
    """The lines that are reported in these steps, and in as many more steps after the report was removed."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("sotto")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    if kind == "local":
        net = Net()
        optimiser = torch.optim.SGD(net.parameters(), 0.1)
        owner, model = sotto.LocalSGD(net, optimiser, every=apart), net
    else:
        owner = model = sotto.compress(make(), "ef | topk(0.1)")
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
    handle = sotto.report(owner, every=every)
    train(model, steps, optimiser=optimiser)
    handle.remove()
    train(model, steps, optimiser=optimiser)
    logger.removeHandler(handler)
    return lines


def reported_to_others(steps, every):
    """What a run of wandb, a SummaryWriter and a function are told; and the error for something else."""
    told = {"wandb": [], "tensorboard": [], "function": []}

    class Run:
        def log(self, values, step):
            told["wandb"].append([step, values])

    class Writer:
        def add_scalar(self, name, value, step):
            told["tensorboard"].append([step, {name: value}])

    model = sotto.compress(make(), "ef | topk(0.1)")
    for to in (Run(), Writer(), lambda step, values: told["function"].append([step, values])):
        sotto.report(model, every, to=to)
    train(model, steps, optimiser=torch.optim.SGD(model.parameters(), 0.1))
    try:
        sotto.report(model, to=3)
    except sotto.ConfigError as error:
        return told, str(error)


def ratio_before_an_exchange():
    net = Net()
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    local = sotto.LocalSGD(net, optimiser, every=100)
    train(net, 1, optimiser=optimiser)
    return str(local.stats().ratio)


def resume_on_other_ranks(folder, old_ranks):
    """The largest difference between the memory and the mean of the old ones; and why a single state was refused."""
    ddp, _ = resumable()
    sotto.compress(ddp, **RESUMED)
    states = [torch.load(f"{folder}/rank{rank}", weights_only=True)["sotto"] for rank in range(old_ranks)]
    try:
        sotto.load_state_dict(ddp, states[0])
        refused = ""
    except sotto.ConfigError as error:
        refused = str(error)
    sotto.load_state_dict(ddp, states[::-1])
    now = sotto.state_dict(ddp)
    name = next(name for name in now["values"] if name.endswith("memory.ef"))
    mean = torch.stack([state["values"][name] for state in states]).mean(0)
    assert mean.abs().max() > 0
    train(ddp, 2, first=3)
    return {"difference": (now["values"][name] - mean).abs().max().item(), "refused": refused, "step": now["step"]}


def save_states(folder, steps, **options):
    ddp = sotto.compress(make(), **options)
    train(ddp, steps)
    torch.save(sotto.state_dict(ddp), f"{folder}/rank{dist.get_rank()}")


def spread_states(folder, old_ranks, **options):
    """How much the old ranks owed, in memories and at owners, and how much this new rank owes."""
    states = [torch.load(f"{folder}/rank{rank}", weights_only=True)["values"] for rank in range(old_ranks)]
    parts = [sum(value.double().sum().item() for state in states for name, value in state.items() if name.endswith(end))
             for end in ("/memory.ef", "/mean/error")]
    ddp = sotto.compress(make(), **options)
    sotto.load_state_dict(ddp, [torch.load(f"{folder}/rank{rank}", weights_only=True) for rank in range(old_ranks)])
    values = sotto.state_dict(ddp)["values"]
    return {"was": [parts[0] / old_ranks, parts[1]], "is": owed(values, dist.get_world_size())}


def spread_sketches(folder, old_ranks, **options):
    """The largest difference between the sketches and the old ranks' sketches; and the largest value of the sketches."""
    states = [torch.load(f"{folder}/rank{rank}", weights_only=True) for rank in range(old_ranks)]
    ddp = sotto.compress(make(), **options)
    sotto.load_state_dict(ddp, states)
    values = sotto.state_dict(ddp)["values"]
    names = [name for name in values if "fetch" in name]
    assert len(names) == 2
    difference = max((values[name] - state["values"][name]).abs().max().item() for name in names for state in states)
    return difference, min(values[name].abs().max().item() for name in names)


def warned(codecs, **options):
    """The warnings about each codec."""
    said = {}
    for codec in codecs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sotto.compress(make(), codec, **options)
        said[codec] = [str(warning.message) for warning in caught if warning.filename == __file__]
    return said


def damaged_states():
    """The error of each damaged state, none of which may change anything."""
    ddp = sotto.compress(make(), "ef | topk(0.1)", aggregator="gather")
    train(ddp, 2)
    good = sotto.state_dict(ddp)
    memory = "0/memory.ef"
    bad = {
        "no state": {"a": 1},
        "format": good | {"sotto": 99},
        "rank": good | {"rank": 1 - good["rank"]},
        "identity": good | {"identity": good["identity"].replace("0.1", "0.2")},
        "missing": good | {"values": {}},
        "short": good | {"values": {memory: good["values"][memory][:-1]}},
        "kind": good | {"values": {memory: 3}},
        "double": good | {"values": {memory: good["values"][memory].double()}},
        "surplus": good | {"values": good["values"] | {"0/other": 1}},
        "list": [good],
    }
    said = {}
    for name, state in bad.items():
        try:
            sotto.load_state_dict(ddp, state)
            said[name] = "nothing"
        except sotto.Error as error:
            said[name] = f"{type(error).__name__}: {error}"
    after = sotto.state_dict(ddp)
    assert torch.equal(after["values"][memory], good["values"][memory]) and after["step"] == good["step"] == 2
    return said
