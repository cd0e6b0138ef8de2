"""Every golden message: at least one of each stage."""

import math

from .bins import quantise_minmax, quantise_quantile
from .case import Case
from .clusters import Clusters
from .code import Elias, Huffman, Rans, blosc_buffer, entropy, lz4_block
from .fitted import FITTED_CASES
from .inputs import extreme, few_large, signs, zeros
from .message import zstd_rle
from .quantise import (CASES, quantise_adaptive, quantise_bf16, quantise_f16, quantise_f32, quantise_int4, quantise_int8, quantise_qsgd,
                       quantise_sign, quantise_signs, quantise_terngrad)  # fmt: skip
from .select import (beside_dense, select_atomo, select_block, select_in_chunks, select_randomk, select_sampled,
                     select_threshold, select_topk)  # fmt: skip
from .transform import Dct, Dct2, Fft, Hadamard, Sketch, Svd


def clusters(**options):
    """(codec, quantiser), two arguments of a Case."""
    stage = Clusters(**options)
    return stage.text(), stage


def cluster_cases():
    return [
        ("clusters", dict(c=4, raw=7, buckets=100), {}),
        ("clusters-density", dict(c=3, raw=0, buckets=40, least=2, sizes="density", percentile=85, sample=20), {}),
        ("clusters-product", dict(c=2, raw=0, buckets=40, least=4, sizes="entropy_centre_density", percentile=99.9, bins=5), {}),
        ("clusters-entropy-extreme", dict(c=5, raw=0, buckets=70, least=3, sizes="entropy", outliers=0.5), dict(values=extreme)),
        ("clusters-bit", dict(c=1, raw=0, decode="centre", percentile=100), {}),
        ("clusters-centre-part", dict(c=3, raw=0, decode="centre"), dict(part=(1, 32, 103), values=few_large)),
        ("clusters-shared", dict(c=3, raw=7, buckets=60, least=2, shared=True), {}),
        ("clusters-shared-centre", dict(c=2, raw=0, decode="centre", shared=True), dict(values=extreme)),
        ("clusters-bucket", dict(c=3, raw=10, buckets=60, least=2, scope="bucket"), {}),
        ("clusters-bucket-part", dict(c=2, raw=0, decode="centre", scope="bucket"), dict(part=(1, 32, 103))),
        ("clusters-tables", dict(c=3, raw=7, buckets=48, least=2, tables="3/4/17"), {}),
        ("clusters-tables-shared", dict(c=2, raw=10, buckets=40, least=3, shared=True, tables="5/15"), {}),
        ("clusters-bucket-shared", dict(c=4, raw=10, buckets=80, least=3, shared=True, scope="bucket"), {}),
    ]


def cases():
    qsgd, sign, int8 = quantise_qsgd, quantise_sign, quantise_int8
    int4, terngrad = quantise_int4, quantise_terngrad
    adaptive = quantise_adaptive
    topk, threshold, atomo, dense = select_topk, select_threshold, select_atomo, beside_dense
    randomk, block = select_randomk, select_block
    zstd, lz4 = ("Zstandard frame", zstd_rle), ("LZ4 block", lz4_block)
    int8_text = "int8(block=256, stochastic=false)"
    svd = "svd(rank=128, exact=512, reshape=rows)"
    topk_small = "topk(ratio=0.4, scope=segment, dense=0)"
    cut = (1, 7, 90)  # part 1, which cuts two segments
    return [
        *(Case(name, codec, quantise, **more) for name, codec, quantise, more in CASES + FITTED_CASES),
        # The other worked examples of docs/wire.
        Case("small-clusters", *clusters(c=1, percentile=100, raw=0, buckets=4, least=2), layout="small"),
        Case("small-quantile", "quantile(bins=256)", quantise_quantile(256), layout="small"),
        Case("small-minmax_sketch", "quantile(bins=256) | minmax_sketch(groups=2, rows=2, columns=0.3)", quantise_minmax(256, 2, 2, 0.3), layout="small"),
        Case("small-topk", f"{topk_small} | f32", quantise_f32, topk(0.4, "segment"), layout="small"),
        Case("small-sampled_topk", "sampled_topk(ratio=0.4, sample=0.01, scope=segment, dense=0) | f32", quantise_f32, select_sampled(0.4), layout="small"),
        Case("small-threshold", "threshold(at=0.5, scope=segment, dense=0) | f32", quantise_f32, threshold(0.5, "at"), layout="small"),
        Case("small-atomo", "atomo(s=2, p=waterfill, scope=segment, dense=0) | f32", quantise_f32, atomo(2, "waterfill"), layout="small"),
        Case("small-randomk", "randomk(ratio=0.4, shared=true, unbiased=false, scope=segment, dense=0) | f32", quantise_f32, randomk(0.4, True, False), layout="small"),
        Case("small-block", "block(size=2, ratio=0.6, pick=top, unbiased=false, scope=segment, dense=0) | f32", quantise_f32, block(2, 0.6, "top", False), layout="small"),
        Case("small-dct", f"dct(chunk=4) | {topk_small} | f32", quantise_f32, topk(0.4, "segment"), layout="small", transform=Dct(4)),
        Case("small-dct2", "dct2(side=64) | topk(ratio=0.01, scope=chunk, dense=0, count=2) | f32", quantise_f32, select_in_chunks(2, 6), layout="matrix", transform=Dct2(64)),
        Case("small-fft", f"fft(chunk=4) | {topk_small} | f32", quantise_f32, topk(0.4, "segment"), layout="small", transform=Fft(4)),
        Case("small-hadamard", "hadamard(chunk=4) | f32", quantise_f32, layout="small", transform=Hadamard(4)),
        Case("small-count_sketch", "count_sketch(rows=1, columns=3, keep=2, seed=0) | f32", quantise_f32, layout="small", transform=Sketch(True, 1, 3, 2, 0)),
        Case("small-count_min", "count_min(rows=1, columns=2, keep=60%, seed=0) | f32", quantise_f32, layout="small", transform=Sketch(False, 1, 2, 0.6, 0)),
        Case("small-svd", f"{svd} | {topk_small} | f32", quantise_f32, topk(0.4, "segment"), layout="matrix", transform=Svd()),
        Case("small-zstd", "f32 | zstd(level=1)", quantise_f32, layout="small", values=zeros, whole=zstd),
        Case("small-rans", f"{int8_text} | rans(model=static)", int8(256, False), layout="row", code=entropy(Rans(), 8)),
        Case("small-huffman", "qsgd(bits=4, bucket=512, norm=max) | huffman(model=static)", qsgd(4, 512, "max"), layout="row", code=entropy(Huffman(), 5)),
        Case("small-elias", "qsgd(bits=4, bucket=512, norm=max) | elias(gaps=true)", qsgd(4, 512, "max"), layout="row", code=entropy(Elias(), 5)),
        Case("small-lz4", "f32 | lz4(acceleration=1)", quantise_f32, layout="small", values=zeros, whole=lz4),
        Case("small-blosc", f"{int8_text} | blosc(filter=bitshuffle, codec=lz4, level=5)", int8(256, False), layout="row", values=zeros, code=("Blosc buffer", blosc_buffer)),
        # Several segments, padding, special values.
        Case("topk-signs", "topk(ratio=0.3, scope=segment, dense=0) | signs", quantise_signs, topk(0.3, "segment")),
        Case("topk-adaptive-part", "topk(ratio=0.3, scope=segment, dense=0) | adaptive(error=0.1, bits=8, bucket=512)", adaptive(0.1, 8, 512), topk(0.3, "segment"), part=cut),
        # `dense` looks at whole segments: the first of `vectors` is dense, the last is not, though a part may be smaller.
        Case("dense", "topk(ratio=0.2, scope=segment, dense=1024) | f32", quantise_f32, dense(1024, topk(0.2, "segment"))),
        Case("dense-all", "topk(ratio=0.2, scope=segment, dense=all) | f32", quantise_f32, dense(math.inf, topk(0.2, "segment")), layout="vectors"),
        Case("dense-part", "topk(ratio=0.2, scope=segment, dense=6) | f32", quantise_f32, dense(6, topk(0.2, "segment")), layout="vectors", part=(1, 4, 40)),
        Case("dense-bucket", "topk(ratio=0.2, scope=bucket, dense=6) | bf16", quantise_bf16, dense(6, topk(0.2, "bucket")), layout="vectors"),
        Case("dense-sampled", "sampled_topk(ratio=0.2, sample=0.1, scope=segment, dense=6) | f32", quantise_f32, dense(6, select_sampled(0.2, 0.1)), layout="vectors"),
        Case("dense-atomo-part", "atomo(s=3, p=waterfill, scope=segment, dense=6) | f32", quantise_f32, dense(6, atomo(3, "waterfill")), layout="vectors", part=(0, 2, 40)),
        Case("threshold-keep", "threshold(keep=0.1, scope=segment, dense=1024) | f32", quantise_f32, dense(1024, threshold(0.1, "keep")), layout="spread"),
        Case("threshold-keep-bucket", "threshold(keep=0.02, scope=bucket, dense=0) | sign(block=0)", sign(0), threshold(0.02, "keep", "bucket"), layout="spread"),
        Case("threshold-drop", "threshold(drop=0.9, scope=segment, dense=0) | f32", quantise_f32, threshold(0.9, "drop")),
        Case("threshold-drop-bucket", "threshold(drop=0.29, scope=bucket, dense=6) | int8(block=256, stochastic=false)", int8(256, False), dense(6, threshold(0.29, "drop", "bucket")), layout="vectors"),
        Case("terngrad-bits-part", "topk(ratio=0.3, scope=segment, dense=0) | terngrad(clip=1, shared=false, pack=bits, bits=3)", terngrad(1, bits=3), topk(0.3, "segment"), part=cut),
        Case("topk-terngrad-part", "topk(ratio=0.3, scope=segment, dense=0) | terngrad(clip=1, shared=false, pack=bits, bits=1)", terngrad(1), topk(0.3, "segment"), part=cut),
        Case("topk", "topk(ratio=0.05, scope=segment, dense=0) | f32", quantise_f32, topk(0.05, "segment")),
        Case("topk-bitmap", "topk(ratio=0.5, scope=segment, dense=0) | sign(block=0)", sign(0), topk(0.5, "segment")),
        Case("topk-bucket", "topk(ratio=0.1, scope=bucket, dense=0) | f16", quantise_f16, topk(0.1, "bucket")),
        Case("topk-qsgd-part", "topk(ratio=0.2, scope=segment, dense=0) | qsgd(bits=4, bucket=4, norm=max)", qsgd(4, 4, "max"), topk(0.2, "segment"), part=cut),
        Case("index-rice", "topk(ratio=0.06, scope=segment, dense=0) | sign(block=0)", sign(0), topk(0.06, "segment"), layout="spread"),
        Case("index-rice-denser", "topk(ratio=0.17, scope=bucket, dense=0) | int4(block=64, stochastic=false)", int4(64, False), topk(0.17, "bucket"), layout="spread"),
        Case("index-runs", "threshold(at=0.25, scope=segment, dense=0) | f32", quantise_f32, threshold(0.25, "at"), layout="sparse"),
        Case("sampled_topk", "sampled_topk(ratio=0.07, sample=0.01, scope=segment, dense=0) | f32", quantise_f32, select_sampled(0.07)),
        Case("sampled_topk-few", "sampled_topk(ratio=0.4, sample=0.01, scope=segment, dense=0) | bf16", quantise_bf16, select_sampled(0.4), values=few_large),
        Case("sampled_topk-all", "sampled_topk(ratio=1, sample=0.01, scope=segment, dense=0) | f32", quantise_f32, select_sampled(1)),
        Case("sampled_topk-bucket", "sampled_topk(ratio=0.1, sample=0.01, scope=bucket, dense=0) | f32", quantise_f32, select_sampled(0.1, scope="bucket")),
        Case("sampled_topk-bucket-dense", "sampled_topk(ratio=0.2, sample=0.3, scope=bucket, dense=6) | bf16", quantise_bf16, dense(6, select_sampled(0.2, 0.3, "bucket")), layout="vectors"),
        Case("threshold", "threshold(relative=0.75, scope=segment, dense=0) | bf16", quantise_bf16, threshold(0.75, "relative")),
        Case("threshold-empty", "threshold(at=100, scope=segment, dense=0) | int8(block=256, stochastic=true)", int8(256, True), threshold(100, "at")),
        *(Case(name, *clusters(**options), **more) for name, options, more in cluster_cases()),
        Case("quantile", "quantile(bins=256)", quantise_quantile(256)),
        Case("quantile-few", "quantile(bins=7)", quantise_quantile(7)),
        Case("quantile-extreme", "quantile(bins=16)", quantise_quantile(16), values=extreme),
        Case("topk-quantile-part", "topk(ratio=0.3, scope=segment, dense=0) | quantile(bins=6)", quantise_quantile(6), topk(0.3, "segment"), part=cut),
        Case("minmax_sketch", "quantile(bins=256) | minmax_sketch(groups=5, rows=3, columns=0.5)", quantise_minmax(256, 5, 3, 0.5)),
        Case("minmax_sketch-extreme", "quantile(bins=40) | minmax_sketch(groups=8, rows=2, columns=0.3)", quantise_minmax(40, 8, 2, 0.3), values=extreme),
        Case("minmax_sketch-zeros", "quantile(bins=256) | minmax_sketch(groups=8, rows=2, columns=0.3)", quantise_minmax(256, 8, 2, 0.3), values=zeros),
        Case("topk-minmax_sketch-part", "topk(ratio=0.3, scope=segment, dense=0) | quantile(bins=30) | minmax_sketch(groups=3, rows=4, columns=0.2)", quantise_minmax(30, 3, 4, 0.2), topk(0.3, "segment"), part=cut),
        Case("atomo", "atomo(s=5, p=waterfill, scope=segment, dense=0) | qsgd(bits=4, bucket=4, norm=max)", qsgd(4, 4, "max"), atomo(5, "waterfill")),
        Case("atomo-share", "atomo(s=20%, p=waterfill, scope=segment, dense=1) | f32", quantise_f32, dense(1, atomo(0.2, "waterfill"))),
        Case("atomo-max", "atomo(s=none, p=max, scope=segment, dense=0) | sign(block=0)", sign(0), atomo(0, "max"), part=cut),
        Case("atomo-extreme", "atomo(s=3, p=waterfill, scope=segment, dense=0) | f32", quantise_f32, atomo(3, "waterfill"), values=extreme),
        Case("randomk", "randomk(ratio=0.2, shared=true, unbiased=true, scope=segment, dense=0) | f16", quantise_f16, randomk(0.2, True, True)),
        Case("randomk-own-part", "randomk(ratio=0.3, shared=false, unbiased=false, scope=segment, dense=0) | qsgd(bits=4, bucket=4, norm=max)", qsgd(4, 4, "max"), randomk(0.3, False, False), part=cut),
        Case("block", "block(size=4, ratio=0.3, pick=top, unbiased=false, scope=segment, dense=0) | int8(block=256, stochastic=false)", int8(256, False), block(4, 0.3, "top", False)),
        Case("block-shared-part", "block(size=5, ratio=0.4, pick=shared, unbiased=true, scope=segment, dense=0) | f32", quantise_f32, block(5, 0.4, "shared", True), part=cut),
        Case("block-random", "hadamard(chunk=8) | block(size=3, ratio=0.2, pick=random, unbiased=false, scope=segment, dense=0) | f32", quantise_f32, block(3, 0.2, "random", False), transform=Hadamard(8)),
        Case("randomk-dense", "randomk(ratio=0.2, shared=true, unbiased=true, scope=segment, dense=1024) | bf16", quantise_bf16, dense(1024, randomk(0.2, True, True))),
        Case("randomk-own-dense", "randomk(ratio=0.3, shared=false, unbiased=false, scope=bucket, dense=6) | f32", quantise_f32, dense(6, randomk(0.3, False, False, "bucket")), layout="vectors"),
        Case("randomk-bucket-part", "randomk(ratio=0.25, shared=true, unbiased=true, scope=bucket, dense=0) | f32", quantise_f32, randomk(0.25, True, True, "bucket"), part=cut),
        Case("block-bucket", "block(size=4, ratio=0.3, pick=top, unbiased=false, scope=bucket, dense=0) | f32", quantise_f32, block(4, 0.3, "top", False, "bucket")),
        Case("block-shared-bucket", "block(size=3, ratio=0.4, pick=shared, unbiased=true, scope=bucket, dense=6) | f32", quantise_f32, dense(6, block(3, 0.4, "shared", True, "bucket")), layout="vectors"),
        Case("dct", "dct(chunk=8) | f32", quantise_f32, transform=Dct(8)),
        Case("dct-atomo", "dct(chunk=8) | atomo(s=5, p=waterfill, scope=segment, dense=0) | f32", quantise_f32, atomo(5, "waterfill"), transform=Dct(8)),
        Case("dct2", "dct2(side=2) | f32", quantise_f32, transform=Dct2(2)),
        Case("dct2-topk", "dct2(side=5) | topk(ratio=0.4, scope=segment, dense=0) | f32", quantise_f32, topk(0.4, "segment"), layout="vectors", transform=Dct2(5)),
        Case("dct-chunks", "dct(chunk=8) | topk(ratio=0.01, scope=chunk, dense=0, count=3) | f32", quantise_f32, select_in_chunks(3, 8), transform=Dct(8)),
        Case("fft", "fft(chunk=16) | f32", quantise_f32, transform=Fft(16)),
        Case("fft-topk", "fft(chunk=4) | topk(ratio=0.3, scope=segment, dense=0) | f32", quantise_f32, topk(0.3, "segment"), transform=Fft(4)),
        Case("hadamard", "hadamard(chunk=8) | qsgd(bits=4, bucket=512, norm=max)", qsgd(4, 512, "max"), transform=Hadamard(8)),
        Case("hadamard-topk-part", "hadamard(chunk=2) | topk(ratio=0.3, scope=segment, dense=0) | f32", quantise_f32, topk(0.3, "segment"), part=(1, 8, 96), transform=Hadamard(2)),
        Case("count_sketch", "count_sketch(rows=3, columns=15%, keep=20%, seed=7) | qsgd(bits=4, bucket=512, norm=max)", qsgd(4, 512, "max"), transform=Sketch(True, 3, 0.15, 0.2, 7)),
        Case("count_sketch-part", "count_sketch(rows=5, columns=3, keep=4, seed=0) | topk(ratio=0.7, scope=segment, dense=0) | f32", quantise_f32, topk(0.7, "segment"), part=cut, transform=Sketch(True, 5, 3, 4, 0)),
        Case("count_min", "count_min(rows=3, columns=10%, keep=30%, seed=1) | f16", quantise_f16, transform=Sketch(False, 3, 0.1, 0.3, 1)),
        Case("svd", f"{svd} | f32", quantise_f32, transform=Svd()),
        Case("svd-topk", f"{svd} | topk(ratio=0.5, scope=segment, dense=0) | f16", quantise_f16, topk(0.5, "segment"), transform=Svd()),
        Case("svd-within", f"{svd} | topk(ratio=0.5, scope=segment, dense=0) | topk(ratio=0.4, scope=segment, dense=0) | f32", quantise_f32, topk(0.5, "segment"), transform=Svd(), within=topk(0.4, "segment")),
        Case("rans", f"{int8_text} | rans(model=static)", int8(256, False), values=signs, code=entropy(Rans(), 8)),
        Case("rans-f32", "f32 | rans(model=static)", quantise_f32, layout="long", code=entropy(Rans(), 32)),
        Case("rans-segment", "terngrad(clip=0, shared=false, pack=bits, bits=1) | rans(model=segment)", terngrad(0), layout="long", code=entropy(Rans("segment"), 2)),
        Case("rans-topk", "topk(ratio=0.9, scope=segment, dense=0) | int8(block=256, stochastic=false) | rans(model=static)", int8(256, False), topk(0.9, "segment"), layout="long", part=(1, 100, 2100), code=entropy(Rans(), 8)),
        Case("rans-long", "qsgd(bits=4, bucket=512, norm=l2) | rans(model=static)", qsgd(4, 512, "l2"), layout="long", code=entropy(Rans(), 5)),
        Case("rans-adaptive", "qsgd(bits=4, bucket=512, norm=l2) | rans(model=adaptive)", qsgd(4, 512, "l2"), layout="long", code=entropy(Rans("adaptive"), 5)),
        Case("rans-of-adaptive", "adaptive(error=0.02, bits=8, bucket=512) | rans(model=segment)", adaptive(0.02, 8, 512), layout="long", code=entropy(Rans("segment"))),
        Case("rans-minmax_sketch", "quantile(bins=64) | minmax_sketch(groups=3, rows=2, columns=0.9) | rans(model=static)", quantise_minmax(64, 3, 2, 0.9), layout="long", code=entropy(Rans())),
        Case("huffman-minmax_sketch", "quantile(bins=20) | minmax_sketch(groups=2, rows=2, columns=0.9) | huffman(model=segment)", quantise_minmax(20, 2, 2, 0.9), layout="long", code=entropy(Huffman("segment"))),
        Case("huffman", "bf16 | huffman(model=static)", quantise_bf16, layout="long", code=entropy(Huffman(), 16)),
        Case("huffman-long", "qsgd(bits=8, bucket=512, norm=l2) | huffman(model=segment)", qsgd(8, 512, "l2"), layout="long", code=entropy(Huffman("segment"), 9)),
        Case("elias-plain", "terngrad(clip=0, shared=false, pack=bits, bits=1) | elias(gaps=false)", terngrad(0), values=few_large, code=entropy(Elias(False), 2)),
        Case("zstd", "qsgd(bits=4, bucket=512, norm=max) | zstd(level=1)", qsgd(4, 512, "max"), values=zeros, whole=zstd),
    ]  # fmt: skip
