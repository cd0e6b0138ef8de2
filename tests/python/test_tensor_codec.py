"""sotto.Codec and sotto.aggregate: single tensors."""

import pickle
import re
import threading

import pytest
import torch

CODECS = ["none", "f16", "int8", "qsgd(bits=4)", "topk(0.1) | f16", "sign(block=128)", "topk(0.2) | qsgd(4) | zstd"]
SHAPES = [(1000,), (3, 5, 7), (1,), (), (0,), (2, 0, 3)]


def tensor_of(shape, dtype):
    return torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("expression", CODECS)
def test_an_equal_codec_decodes(package, expression, dtype):
    for shape in SHAPES:
        x = tensor_of(shape, dtype)
        before = x.clone()
        data = package.Codec(expression).encode(x, seed=1, step=2)
        assert isinstance(data, bytes)
        y = package.Codec(expression).decode(data)
        assert torch.equal(x, before)
        assert (y.shape, y.dtype, y.is_contiguous()) == (x.shape, x.dtype, True)
        assert torch.equal(y, package.Codec(expression).decode(bytearray(data)))
        if expression == "none":
            assert torch.equal(x, y)
        elif x.numel() == 1000:
            assert (x.float() - y.float()).norm() < x.float().norm()


def test_what_a_type_cannot_hold_is_an_error(package):
    x = torch.full((1000,), 40000.0, dtype=torch.float16)
    for expression in ("natural", "randomk(0.5, unbiased=true, dense=0)", "qsgd(bits=1, norm=l2)"):
        codec = package.Codec(expression)
        with pytest.raises(package.NumericError, match="what was decoded reaches .*, and f16 ends at 65504"):
            codec.decode(codec.encode(x))
        assert codec.decode(codec.encode(x.float())).isfinite().all()
    huge = torch.zeros(1000)
    huge[:40] = 5e37
    for expression in ("atomo(s=1, dense=0)", "randomk(0.1, unbiased=true, dense=0)"):
        with pytest.raises(package.NumericError, match="^tensor has values that this codec makes too large for floats$"):
            package.Codec(expression).encode(huge)
    huge[7] = torch.inf
    with pytest.raises(package.NumericError, match="is not finite"):
        package.Codec("atomo(s=1, dense=0)").encode(huge)


def test_layouts_do_not_matter(package):
    x = torch.randn(2, 3, 4, 5)
    codec = package.Codec("qsgd(4)")
    assert codec.encode(torch._neg_view(x)) == codec.encode(-x)
    assert pickle.loads(pickle.dumps(codec)).encode(x) == codec.encode(x)
    for other in (x.to(memory_format=torch.channels_last), x.transpose(1, 2).contiguous().transpose(1, 2), x.requires_grad_()):
        assert codec.encode(other) == codec.encode(x)


def test_random_numbers_come_from_seed_and_step(package):
    x, codec = torch.randn(1000), package.Codec("qsgd(4)")
    messages = [codec.encode(x, seed=seed, step=step) for seed, step in ((0, 0), (0, 0), (1, 0), (0, 1))]
    assert messages[0] == messages[1]
    assert len(set(messages)) == 3


def test_bytes_that_lie_apart_are_refused(package):
    codec = package.Codec("int8")
    data = codec.encode(torch.randn(1000))
    apart = bytearray(2 * len(data))
    apart[::2] = data
    for view in (memoryview(data)[::-1], memoryview(apart)[::2]):
        with pytest.raises(package.ConfigError, match="do not lie one after the other"):
            codec.decode(view)
    assert torch.equal(codec.decode(bytes(memoryview(apart)[::2])), codec.decode(memoryview(data)))


@pytest.mark.parametrize("expression", ["qsgd(4)", "topk(0.1) | f16 | zstd"])
def test_wrong_bytes_are_wire_errors(package, expression):
    codec = package.Codec(expression)
    good = codec.encode(torch.randn(4, 20))
    for length in range(len(good)):
        with pytest.raises(package.WireError):
            codec.decode(good[:length])
    for position in range(8 * len(good)):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        with pytest.raises(package.WireError):
            codec.decode(bad)
    for bad in (good + b"x", b"", bytes(100), package.Codec("int8").encode(torch.randn(4, 20))):
        with pytest.raises(package.WireError):
            codec.decode(bad)
    assert codec.decode(good).shape == (4, 20)


def test_what_bytes_may_announce_is_limited(package):
    codec = package.Codec("topk(0.001)")
    data = codec.encode(torch.randn(1000))
    with pytest.raises(package.WireError, match="more than 999 elements"):
        codec.decode(data, limit=999)
    assert codec.decode(data, limit=1000).numel() == 1000


def test_bad_calls(package):
    with pytest.raises(package.ConfigError, match="did you mean `qsgd`"):
        package.Codec("qsdg(4)")
    with pytest.raises(package.ConfigError, match="a single message has no memory"):
        package.Codec("ef | topk(0.1)")
    codec = package.Codec("int8")
    for tensor in (torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.int32), torch.ones(3, 3).to_sparse()):
        with pytest.raises(ValueError, match="cannot be encoded"):
            codec.encode(tensor)
    with pytest.raises(ValueError, match="a tensor of float32 that is not dense cannot"):
        codec.encode(torch.ones(3).to_sparse())
    with pytest.raises(package.NumericError, match="^tensor is not finite$"):
        codec.encode(torch.tensor([1.0, torch.nan]), step=7)
    x = torch.ones(3)
    for call, said in (
        (lambda: package.Codec(None), "codec=None: wants a codec"),
        (lambda: package.Codec(""), "codec='': wants a codec"),
        (lambda: package.Codec("foo"), "codec='foo': unknown codec"),
        (lambda: package.Codec("ef | int8"), "codec='ef | int8': `ef` remembers"),
        (lambda: codec.encode([1.0, 2.0]), "wants a tensor, or an array that numpy can read, not list"),
        (lambda: codec.encode(x.to("meta")), "not a tensor without data"),
        (lambda: codec.encode(x, seed=-1), "seed=-1: wants a whole number"),
        (lambda: codec.encode(x, step=1 << 33), "below 2**32"),
        (lambda: codec.decode("text"), "data: wants bytes, a bytearray or a memoryview, not str"),
        (lambda: codec.decode(None), "not NoneType"),
        (lambda: codec.decode(b"", limit=-1), "limit=-1: wants"),
        (lambda: codec.contract((-5,)), "wants sizes"),
        (lambda: codec.contract((1 << 40, 1 << 40)), "wants sizes"),
        (lambda: codec.contract(5), "shape=5: wants sizes"),
    ):
        with pytest.raises(package.ConfigError, match=re.escape(said)):
            call()
    with pytest.raises(package.ConfigError, match="init_process_group"):
        package.aggregate(torch.ones(3))


def test_what_is_said_about_a_codec(package):
    codec = package.Codec("qsgd(4)")
    assert codec.text.startswith("qsgd(bits=4") and repr(codec) == f"sotto.Codec({codec.text!r})"
    contract = codec.contract((1000,))
    assert (contract.kind, contract.linear) == ("unbiased", False) and contract.omega > 0
    assert package.Codec("none").contract((5, 5)).kind == "exact"
    assert package.Codec("topk(0.25)").contract((10, 10)).delta == pytest.approx(0.25)
    x = torch.randn(10000)
    assert codec.ratio(x) == 40000 / len(codec.encode(x))
    assert issubclass(package.ConfigError, (ValueError, package.Error)) and package.__version__


def test_threads_take_turns(package):
    codec, x = package.Codec("qsgd(4)"), torch.randn(20000)
    wanted = [codec.encode(x, step=step) for step in range(8)]
    found = [None] * 8

    def encode(step):
        found[step] = codec.encode(x, step=step)

    threads = [threading.Thread(target=encode, args=(step,)) for step in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == wanted


def test_flushed_denormals_change_no_bit(package):
    """The caller's thread may round denormals to zero, while our threads do not."""
    tensor = torch.randn(4096, generator=torch.Generator().manual_seed(3)) * 1e-39
    found = []
    for flush in (False, True):
        assert torch.set_flush_denormal(flush)
        try:
            for threads in (1, 4):
                codec = package.Codec("topk(0.5)", threads=threads)
                data = codec.encode(tensor)
                found.append((data, codec.decode(data).numpy().tobytes()))
        finally:
            torch.set_flush_denormal(False)
    assert len(set(found)) == 1
    assert any(found[0][1])


def test_aggregate(pair, start_ranks):
    assert pair.values("aggregates") == [[4, 3]] * 2


def test_what_is_not_finite_is_not_aggregated(pair):
    other, bad = pair.values("aggregates_that_are_not_finite")
    assert len(bad) == 4 * 17 + 3 + 2
    for name, said in bad.items():
        assert said.startswith("NumericError: "), name
        if name.startswith("large"):
            assert other[name] == said and "of all ranks" in said, name
        else:
            assert said.startswith("NumericError: rank 1: the tensor holds ") and other[name].startswith("ConfigError: rank 1"), name



def test_other_threads_run_while_one_waits(pair, tmp_path):
    assert pair.values("others_run_meanwhile", folder=str(tmp_path)) == [[2.0] * 4] * 2


@pytest.mark.parametrize("expression", ["none", "sign", "topk(0.01) | qsgd(4)"])
def test_threads_change_no_bit(package, expression):
    x = torch.randn(300_000)
    one, three = package.Codec(expression), package.Codec(expression, threads=3)
    data = one.encode(x)
    assert three.encode(x) == data
    assert torch.equal(three.decode(data), one.decode(data))


@pytest.mark.parametrize("threads", [0, -1, 257, 2.0, True, "2", None], ids=repr)
def test_numbers_of_threads_that_are_refused(package, threads):
    with pytest.raises(package.ConfigError, match="threads="):
        package.Codec("none", threads=threads)
