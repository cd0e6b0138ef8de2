"""A rank of an elastic job that a test drives. run() is called in its own process, with a wish:

    coordinator: HOST:PORT
    plan: stages, each a number of ranks and how many steps a group of so many must make. The next stage begins with a group
        of its size after that; the job ends after the last stage. Groups of other sizes make steps, too, which do not count
    die: the stage after whose second step this rank kills itself, and the moment: forward, backward, step, commit
    when: a file; before that it waits until the file is there
    die_in: send_from (while new ranks get the state), close (when it has noticed a loss) or agree_on_change
    fail_in: init_process_group or compress, where it raises its own exception
    fail: the stage after whose second step it raises its own exception
    spoil: a step after which its model is not finite
    timeout: of exchanges; above what sotto.elastic allows, too
    wrapper, codec: how gradients are averaged, or models; OWN has the wrappers with which models differ
    topology: of gossip
    end: a file; a job of one rank ends when it is there
    visits: how often this rank comes, and leaves after three steps as if it were asked to (SIGTERM)

Prints a line of JSON at each call of the function, after each commit, and at the end.
"""

import hashlib
import json
import os
import signal
import struct
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sotto
from sotto import _elastic

OWN = {
    "push_sum": lambda net, optimizer: gossip(net, "push_sum"),
    "overlapped": lambda net, optimizer: gossip(net, "push_sum(overlap=true)", codec="f16"),
    "d_psgd": lambda net, optimizer: gossip(net, "d_psgd", topology="ring"),
    "choco": lambda net, optimizer: gossip(net, "choco", codec="topk(0.4)", topology=all_others()),
    "ad_psgd": lambda net, optimizer: gossip(net, "ad_psgd", topology="star"),
    "local": lambda net, optimizer: sotto.LocalSGD(net, optimizer, every=2, codec="ef | topk(0.3)"),
    "seldom": lambda net, optimizer: sotto.LocalSGD(net, optimizer, every=1000),
    "diloco": lambda net, optimizer: sotto.DiLoCo(net, optimizer, every=3, shards=2, overlap=2, outer_momentum=0.3,
                                                  codec="ef | topk(0.5)", bucket_mb=0.002),
}
wish = {}


def say(**what):
    print(json.dumps(what), flush=True)


def names_of(folder, name):
    """What the entries of a folder of /proc are, without those that are gone before they say so."""
    names = []
    for entry in os.listdir(folder):
        try:
            names.append(name(os.path.join(folder, entry)))
        except OSError:
            pass
    return sorted(names)


def resources():
    return {"open": names_of("/proc/self/fd", os.readlink),
            "threads": names_of("/proc/self/task", lambda task: open(os.path.join(task, "comm")).read().strip())}


def hash_of(tensors):
    return hashlib.sha256(b"".join(t.detach().cpu().contiguous().numpy().tobytes() for t in tensors)).hexdigest()[:16]


def owed(values):
    """What this rank holds back."""
    return hash_of([values[name] for name in sorted(values) if "memory" in name and values[name].abs().sum() > 0])


def own_model(values):
    """This rank's model and its weight, with what was on its way to it; and the outer optimiser, which all ranks share."""
    xs = [values[name] for name in values if name.endswith((".x", ".arriving")) and len(values[name])] or [values["parameters"]]
    weights = [struct.unpack("d", struct.pack("Q", values[name]))[0] for name in values if name.endswith("weight")] or [1]
    outer = hash_of([values[name] for name in sorted(values) if name.startswith(("local/", "diloco/")) and torch.is_tensor(values[name])])
    return {"x": sum(xs).tolist(), "weight": sum(weights), "outer": outer}


def kept(wrapper):
    if wish.get("codec") == "plain":
        return {}
    values = sotto.state_dict(wrapper)["values"]
    return {"owed": owed(values)} | (own_model(values) if wish.get("wrapper") in OWN else {})


def examples(count, seed):
    """The same ones on every device."""
    return torch.randn(count, 20, generator=torch.Generator().manual_seed(seed), device="cpu").to(torch.get_default_device())


def tested(net):
    x = examples(1000, 1)
    with torch.no_grad():
        return loss_of(net, x).item()


def loss_of(model, x):
    return (model(x) - x.sum(1, keepdim=True)).square().mean()


def killed(*_):
    """In place of a function, until which the rank lives; closing nothing, before the first group, does not count."""
    if _ != ([],):
        os.kill(os.getpid(), signal.SIGKILL)


def fail(*_, **__):
    raise KeyError("the user's own")


def kill_at(moment, stage, count):
    if [stage, moment] == wish.get("die") and count == 2:
        while not os.path.exists(wish.get("when", "/")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


def all_others():
    """A topology of the user's own, which is another one for each number of ranks."""
    ranks = range(dist.get_world_size())
    return [[peer for peer in ranks if peer != rank] for rank in ranks]


def gossip(net, algorithm, **options):
    return sotto.GossipDataParallel(net, algorithm, **options | {name: wish[name] for name in ("topology",) if name in wish})


def wrapped(net, optimizer):
    wrapper = wish.get("wrapper")
    if wrapper in OWN:
        return OWN[wrapper](net, optimizer)
    if wrapper == "all_reduce":
        return sotto.AllReduceDataParallel(net, wish.get("codec", "ef | topk(0.1)"))
    if wrapper == "nodes":
        return sotto.GossipDataParallel(net, "push_sum", node_size=2)
    if wrapper == "hierarchical":
        return sotto.AllReduceDataParallel(net, "ef | topk(0.1)", aggregator="hierarchical(group=2)")
    ddp = DistributedDataParallel(net)
    if wish.get("codec") != "plain":
        sotto.compress(ddp, wish.get("codec", "ef | topk(0.1)"))
    return ddp


def step(model, state):
    stage, count = state.stage, state.count
    x = examples(16, 1000 * state.step + dist.get_rank())
    state.optimizer.zero_grad()
    kill_at("forward", stage, count)
    loss = loss_of(model if isinstance(model, torch.nn.Module) else state.net, x)
    if wish.get("fail") == stage and count == 2:
        fail()
    hook = state.net[0].weight.register_hook(lambda _: kill_at("backward", stage, count))
    loss.backward()
    hook.remove()
    kill_at("step", stage, count)
    state.optimizer.step()
    state.step += 1
    state.count += wish["plan"][stage][0] == dist.get_world_size()
    return loss.item()


def train(state):
    size, plan = dist.get_world_size(), wish["plan"]
    if state.count >= plan[state.stage][1] and [size] == [ranks for ranks, _ in plan[state.stage + 1:state.stage + 2]]:
        state.stage, state.count = state.stage + 1, 0
    model = wrapped(state.net, state.optimizer)
    say(call=state.step, rank=dist.get_rank(), ranks=size, model=hash_of(state.net.parameters()), tested=tested(state.net),
        optimizer=hash_of(v["momentum_buffer"] for v in state.optimizer.state.values()), **resources(), **kept(model))
    first = state.step
    while not os.path.exists(wish.get("end", "")) and (state.stage + 1 < len(plan) or state.count < plan[-1][1]):
        if wish.get("visits") and state.step == first + 3:
            os.kill(os.getpid(), signal.SIGTERM)
        if state.count > plan[state.stage][1]:
            time.sleep(0.02)  # until others have come; they need the cores to start
        loss = step(model, state)
        if wish.get("spoil") == state.step:
            torch.nn.init.constant_(state.net[0].weight, float("nan"))
        say(step=state.step, ranks=size, stage=state.stage, count=state.count, loss=loss, **kept(model))
        state.commit()
        kill_at("commit", state.stage, state.count)
    if wish.get("wrapper") in OWN:
        model.take_average()
    return "the end"


def run(wanted):
    wish.update(wanted)
    _elastic.LONGEST = 3600
    elastic_train = sotto.elastic(wish["coordinator"], timeout=wish.get("timeout", 120))(train)
    if wish.get("die_in") == "agree_on_change":
        _elastic._Job.agree_on_change = killed
    elif "die_in" in wish:
        setattr(_elastic, wish["die_in"], killed)
    if "fail_in" in wish:
        setattr(*{"init_process_group": (dist, "init_process_group"), "compress": (sotto, "compress")}[wish["fail_in"]], fail)
    torch.set_num_threads(1)  # as torchrun has it
    torch.set_default_device(os.environ.get("SOTTO_TEST_DEVICE", "cpu"))
    torch.manual_seed(os.getpid())  # so models of ranks differ before the first call
    net = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    state = sotto.ElasticState(net=net, optimizer=optimizer, step=0, stage=0, count=0)
    for visit in range(wish.get("visits", 0)):
        try:
            elastic_train(state)
        except SystemExit as left:
            say(left=left.code, **resources())
    if wish.get("visits"):
        return
    try:
        result = elastic_train(state)
    except Exception as error:
        say(error=f"{type(error).__name__}: {error}", step=state.step)
        raise
    say(result=result, step=state.step, model=hash_of(net.parameters()), tested=tested(net))
