"""Quantisers: (values, random number of value j) -> (side information, packed symbols, decoded values)."""

import math
import struct

import numpy as np

from .floats import bits_of, f32, float_of, lanes
from .inputs import extreme, zeros


def pack_bits(symbols, width):
    stream = 0
    for i, symbol in enumerate(symbols):
        stream |= symbol << (i * width)
    return stream.to_bytes((len(symbols) * width + 7) // 8, "little")


def blocks(values, size):
    size = size or max(len(values), 1)
    return [values[i : i + size] for i in range(0, len(values), size)]


def quantise_f32(values, _):
    return b"", b"".join(struct.pack("<f", v) for v in values), list(values)


def quantise_bf16(values, _):
    packed, decoded = b"", []
    for v in values:
        b = bits_of(v)
        m = b & 0x7FFFFFFF
        m = min((m + 0x7FFF + (m >> 16 & 1)) >> 16, 0x7F7F)
        half = b >> 31 << 15 | m
        packed += struct.pack("<H", half)
        decoded.append(float_of(half << 16))
    return b"", packed, decoded


def quantise_f16(values, _):
    side, packed, decoded = b"", b"", []
    for block in blocks(values, 4096):
        most = max(abs(float(v)) for v in block)
        shift = 0
        if most != 0 and not 1 <= most <= 65504:
            shift = min(14 - math.frexp(most)[1] + 1, 149)
        side += struct.pack("<f", 2.0**-shift)
        for v in block:
            half = np.float16(f32(float(v) * 2.0**shift))
            packed += half.tobytes()
            decoded.append(f32(max(min(float(half) * 2.0**-shift, 3.4028234663852886e38), -3.4028234663852886e38)))
    return side, packed, decoded


class Grid:
    """Maps values of magnitude up to `norm` to whole numbers of -top .. top."""

    def __init__(self, norm, top):
        self.norm, self.top = f32(norm), f32(top)
        self.up = f32(2.0**64 if norm < 2.0**-64 else 2.0**-64 if norm > 2.0**64 else 1)
        self.factor = f32(0) if norm == 0 else self.top / (self.norm * self.up)

    def level(self, v, number=None):
        y = f32(v) * self.up * self.factor
        if number is not None:
            y += f32(number - 2**32 if number >= 2**31 else number) * f32(2.0**-32)
            y = max(min(y, self.top), -self.top)
        return int(np.rint(y))  # to the nearest, ties to even

    def value(self, level):
        return self.norm * (f32(level) * (f32(1) / self.top))


def quantise_levels(bits, size, norm_of, stochastic, trits=False):
    """Blocks of values that share a norm; levels take bits + 1 bits each or, with `trits`, five take a byte."""

    def quantise(values, number):
        side, symbols, decoded, first = b"", [], [], 0
        for block in blocks(values, size):
            norm = norm_of(block)
            side += struct.pack("<f", norm)
            grid = Grid(norm, 2**bits - 1)
            for j, v in enumerate(block):
                level = grid.level(v, number(first + j) if stochastic else None)
                symbols.append(2 * level if level >= 0 else -2 * level - 1)
                decoded.append(grid.value(level))
            first += len(block)
        return side, pack_trits(symbols) if trits else pack_bits(symbols, bits + 1), decoded

    return quantise


def most(block):
    return max(abs(v) for v in block)


def squares(block):
    return lanes(float(v) * float(v) for v in block)


def quantise_qsgd(bits, bucket, norm):
    euclidean = lambda block: f32(min(math.sqrt(squares(block)), 3.4028234663852886e38))
    return quantise_levels(bits, bucket, most if norm == "max" else euclidean, True)


def quantise_int4(block, stochastic):
    return quantise_levels(3, block, most, stochastic)


NF4 = [f32(level) for level in (-1, -0.696192801, -0.525073051, -0.394917488, -0.284441382, -0.184773430, -0.0910500363, 0,
                                0.0795802996, 0.160930201, 0.246112302, 0.337915242, 0.440709829, 0.562617004, 0.722956836, 1)]  # fmt: skip


def quantise_nf4(size):
    def quantise(values, _):
        side, symbols, decoded = b"", [], []
        for block in blocks(values, size):
            norm = f32(most(block))
            side += struct.pack("<f", norm)
            grid = Grid(norm, 1)
            for v in block:
                y = f32(v) * grid.up * grid.factor
                symbols.append(sum(int(y > (low + high) / f32(2)) for low, high in zip(NF4, NF4[1:])))
                decoded.append(norm * NF4[symbols[-1]])
        return side, pack_bits(symbols, 4), decoded

    return quantise


def spread(block):
    """The standard deviation; of values that hardly differ, the root mean square."""
    mean, square = lanes(float(v) for v in block) / len(block), squares(block) / len(block)
    variance = square - mean * mean
    return math.sqrt(square if variance < 0.04 * square else variance)


def quantise_terngrad(clip, trits=False, bits=1):
    cut = lambda block: f32(min(float(most(block)), clip * spread(block)))
    return quantise_levels(bits, 0, cut if clip else most, True, trits)


def quantise_sign(block_size):
    def quantise(values, _):
        side, decoded = b"", []
        for block in blocks(values, block_size):
            mean = f32(lanes(abs(float(v)) for v in block) / len(block))
            side += struct.pack("<f", mean)
            decoded += [-mean if v < 0 else mean for v in block]
        return side, pack_bits([int(v < 0) for v in values], 1), decoded

    return quantise


def quantise_signs(values, number):
    negative = [v < 0 or (v == 0 and number(j) >> 31 == 1) for j, v in enumerate(values)]
    return b"", pack_bits([int(bit) for bit in negative], 1), [f32(-1 if bit else 1) for bit in negative]


def quantise_int8(block_size, stochastic):
    def quantise(values, number):
        side, packed, decoded = b"", b"", []
        for b, block in enumerate(blocks(values, block_size)):
            most = max(abs(v) for v in block)
            side += struct.pack("<f", most)
            grid = Grid(most, 127)
            for j, v in enumerate(block):
                level = grid.level(v, number(b * block_size + j) if stochastic else None)
                packed += struct.pack("<b", level)
                decoded.append(grid.value(level))
        return side, packed, decoded

    return quantise


class Interval:
    """Maps values from `low` to `high` to whole numbers of 0 .. 255."""

    def __init__(self, low, high):
        far = max(abs(low), abs(high))
        self.up = f32(2.0**64 if far < 2.0**-64 else 2.0**-64 if far > 2.0**64 else 1)
        self.begin, self.end = f32(low) * self.up, f32(high) * self.up + f32(0)
        span = self.end - self.begin
        self.factor = f32(0) if span == 0 else f32(255) / span
        self.step = span / f32(255)

    def level(self, v, number=None):
        y = (f32(v) * self.up - self.begin) * self.factor
        if number is not None:
            y += f32(number - 2**32 if number >= 2**31 else number) * f32(2.0**-32)
            y = max(min(y, f32(255)), f32(0))
        return int(np.rint(y))

    def value(self, level):
        return (self.end if level == 255 else self.begin + f32(level) * self.step) / self.up


def quantise_uint8(block_size, stochastic):
    def quantise(values, number):
        side, packed, decoded = b"", b"", []
        for b, block in enumerate(blocks(values, block_size)):
            low, high = min(block) + f32(0), max(block) + f32(0)
            side += struct.pack("<ff", low, high)
            interval = Interval(low, high)
            for j, v in enumerate(block):
                level = interval.level(v, number(b * block_size + j) if stochastic else None)
                packed += struct.pack("<B", level)
                decoded.append(interval.value(level))
        return side, packed, decoded

    return quantise


def float8(bits, mantissa, bias):
    """The magnitude that the seven bits below the sign stand for."""
    exponent, fraction = bits >> mantissa, bits & ((1 << mantissa) - 1)
    if exponent == 0:
        return fraction * 2.0 ** (1 - bias - mantissa)
    return (1 + fraction * 2.0**-mantissa) * 2.0 ** (exponent - bias)


def quantise_fp8(name, block_size):
    mantissa, bias, last = {"e4m3": (3, 7, 0x7E), "e5m2": (2, 15, 0x7B)}[name]
    table = [float8(bits, mantissa, bias) for bits in range(last + 1)]

    def quantise(values, _):
        side, packed, decoded = b"", b"", []
        for block in blocks(values, block_size):
            largest, shift = max(abs(float(v)) for v in block), 0
            if largest > 0:
                shift = -149
                while largest > table[-1] * 2.0**shift:
                    shift += 1
            side += struct.pack("<f", 2.0**shift)
            for v in block:
                wanted = abs(float(v)) / 2.0**shift
                near = min(range(last + 1), key=lambda bits: (abs(table[bits] - wanted), bits & 1))
                back = min(table[near] * 2.0**shift, 3.4028234663852886e38)
                negative = bits_of(v) >> 31
                packed += bytes([negative << 7 | near])
                decoded.append(f32(-back if negative else back))
        return side, packed, decoded

    return quantise


def quantise_natural(values, number):
    side, packed, decoded, first = b"", b"", [], 0
    for block in blocks(values, 4096):
        unit = 2.0**-126
        while 2 * unit <= max(abs(float(v)) for v in block):
            unit *= 2
        side += struct.pack("<f", unit)
        for j, v in enumerate(block):
            b = bits_of(f32(float(v) / (2 * unit)))
            power = ((b & 0x7FFFFFFF) + (number(first + j) >> 9)) >> 23
            packed += bytes([b >> 31 << 7 | power])
            back = float(float_of(b >> 31 << 31 | power << 23)) * 2 * unit
            decoded.append(f32(max(min(back, 3.4028234663852886e38), -3.4028234663852886e38)))
        first += len(block)
    return side, packed, decoded


def pack_trits(symbols):
    packed = b""
    for group in blocks(symbols, 320) if symbols else []:
        n = (len(group) + 4) // 5
        digits = group + [0] * (5 * n - len(group))
        packed += bytes(sum(3**k * digits[j + k * n] for k in range(5)) for j in range(n))
    return packed


def quantise_adaptive(error, most_bits, bucket):
    def quantise(values, number):
        if not len(values):
            return b"", b"", []
        norms = 0.0
        for block in blocks(values, bucket):
            norms += float(most(block)) * float(most(block)) * len(block)
        budget, bits = error * error * squares(values), 1
        while bits < most_bits and norms / (4.0 * (2**bits - 1) * (2**bits - 1)) > budget:
            bits += 1
        side, packed, decoded = quantise_levels(bits, bucket, most, True)(values, number)
        return struct.pack("<I", bits) + side, packed, decoded, [(bits + 1, 0, len(values))]

    return quantise


# Golden messages of each quantiser alone: name, codec, quantiser, and what else a Case takes. The page of a stage shows
# its case small-NAME.
CUT = (1, 7, 90)  # part 1, which cuts two segments
CASES = [
    ("small-f32", "f32", quantise_f32, dict(layout="small")),
    ("f32", "f32", quantise_f32, dict()),
    ("f32-part", "f32", quantise_f32, dict(part=CUT)),
    ("small-f16", "f16", quantise_f16, dict(layout="small")),
    ("f16", "f16", quantise_f16, dict()),
    ("f16-extreme", "f16", quantise_f16, dict(values=extreme)),
    ("small-bf16", "bf16", quantise_bf16, dict(layout="small")),
    ("bf16", "bf16", quantise_bf16, dict(values=extreme)),
    ("small-qsgd", "qsgd(bits=4, bucket=512, norm=max)", quantise_qsgd(4, 512, "max"), dict(layout="small")),
    ("qsgd", "qsgd(bits=4, bucket=512, norm=max)", quantise_qsgd(4, 512, "max"), dict()),
    ("qsgd-bits1", "qsgd(bits=1, bucket=7, norm=max)", quantise_qsgd(1, 7, "max"), dict()),
    ("qsgd-bits8-l2", "qsgd(bits=8, bucket=20, norm=l2)", quantise_qsgd(8, 20, "l2"), dict()),
    ("qsgd-part", "qsgd(bits=3, bucket=512, norm=l2)", quantise_qsgd(3, 512, "l2"), dict(part=CUT)),
    ("qsgd-extreme", "qsgd(bits=4, bucket=512, norm=l2)", quantise_qsgd(4, 512, "l2"), dict(values=extreme)),
    ("small-sign", "sign(block=0)", quantise_sign(0), dict(layout="small")),
    ("sign", "sign(block=0)", quantise_sign(0), dict()),
    ("sign-block", "sign(block=9)", quantise_sign(9), dict(values=extreme)),
    ("small-signs", "signs", quantise_signs, dict(layout="small")),
    ("signs", "signs", quantise_signs, dict()),
    ("signs-part", "signs", quantise_signs, dict(values=zeros, part=CUT)),
    ("small-int8", "int8(block=256, stochastic=false)", quantise_int8(256, False), dict(layout="small")),
    ("int8", "int8(block=256, stochastic=false)", quantise_int8(256, False), dict()),
    ("int8-stochastic", "int8(block=10, stochastic=true)", quantise_int8(10, True), dict(values=extreme)),
    ("small-uint8", "uint8(block=256, stochastic=false)", quantise_uint8(256, False), dict(layout="small")),
    ("uint8", "uint8(block=256, stochastic=false)", quantise_uint8(256, False), dict()),
    ("uint8-block", "uint8(block=9, stochastic=false)", quantise_uint8(9, False), dict(values=extreme)),
    ("uint8-stochastic", "uint8(block=10, stochastic=true)", quantise_uint8(10, True), dict(values=extreme)),
    ("small-int4", "int4(block=64, stochastic=false)", quantise_int4(64, False), dict(layout="small")),
    ("int4", "int4(block=64, stochastic=false)", quantise_int4(64, False), dict()),
    ("int4-stochastic", "int4(block=9, stochastic=true)", quantise_int4(9, True), dict(values=extreme)),
    ("small-nf4", "nf4(block=64)", quantise_nf4(64), dict(layout="small")),
    ("nf4-extreme", "nf4(block=9)", quantise_nf4(9), dict(values=extreme)),
    ("nf4-part", "nf4(block=7)", quantise_nf4(7), dict(part=CUT)),
    ("small-terngrad", "terngrad(clip=2.5, shared=false, pack=bits, bits=1)", quantise_terngrad(2.5), dict(layout="small")),
    ("terngrad", "terngrad(clip=2.5, shared=false, pack=bits, bits=1)", quantise_terngrad(2.5), dict()),
    ("terngrad-extreme", "terngrad(clip=0, shared=false, pack=bits, bits=1)", quantise_terngrad(0), dict(values=extreme)),
    ("terngrad-trits", "terngrad(clip=2.5, shared=false, pack=trits, bits=1)", quantise_terngrad(2.5, True), dict(layout="small")),
    ("terngrad-trits-long", "terngrad(clip=0, shared=false, pack=trits, bits=1)", quantise_terngrad(0, True), dict(layout="groups")),
    ("terngrad-shared", "terngrad(clip=2.5, shared=true, pack=bits, bits=1)", quantise_terngrad(2.5), dict()),
    ("terngrad-bits", "terngrad(clip=1.5, shared=false, pack=bits, bits=2)", quantise_terngrad(1.5, bits=2), dict()),
    ("terngrad-bits-shared", "terngrad(clip=0, shared=true, pack=bits, bits=4)", quantise_terngrad(0, bits=4), dict()),
    ("small-fp8", "fp8(format=e4m3, block=256)", quantise_fp8("e4m3", 256), dict(layout="small")),
    ("fp8-extreme", "fp8(format=e4m3, block=9)", quantise_fp8("e4m3", 9), dict(values=extreme)),
    ("fp8-e5m2-part", "fp8(format=e5m2, block=256)", quantise_fp8("e5m2", 256), dict(part=CUT)),
    ("fp8-e5m2-extreme", "fp8(format=e5m2, block=9)", quantise_fp8("e5m2", 9), dict(values=extreme)),
    ("small-natural", "natural", quantise_natural, dict(layout="small")),
    ("natural", "natural", quantise_natural, dict(part=CUT)),
    ("natural-extreme", "natural", quantise_natural, dict(values=extreme)),
    ("small-adaptive", "adaptive(error=0.3, bits=8, bucket=512)", quantise_adaptive(0.3, 8, 512), dict(layout="small")),
    ("adaptive", "adaptive(error=0.2, bits=6, bucket=20)", quantise_adaptive(0.2, 6, 20), dict()),
    ("adaptive-extreme", "adaptive(error=0.05, bits=5, bucket=9)", quantise_adaptive(0.05, 5, 9), dict(values=extreme)),
]  # fmt: skip
