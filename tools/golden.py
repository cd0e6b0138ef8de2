#!/usr/bin/env python3
"""Golden messages of every codec stage, made from docs/wire.md alone: nothing of the C++ code is used here.

    python tools/golden.py           writes tests/codec/golden/*.hex and the worked examples in docs/wire.md
    python tools/golden.py --check   derives them again and fails when a file differs

Needs numpy. The tests encode the inputs in these files with the C++ code and compare every byte.
"""

import argparse
import math
import pathlib
import struct
import sys
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "codec" / "golden"
WIRE = ROOT / "docs" / "wire.md"

f32 = np.float32
MASK = 0xFFFFFFFF
QUANTISE, SELECT, SELECT_WITHIN = 1, 2, 9  # purposes of random numbers


# Random numbers -------------------------------------------------------------------------------------------------------


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def mix(h):
    h ^= h >> 16
    h = h * 0x7FEB352D & MASK
    h ^= h >> 15
    h = h * 0x846CA68B & MASK
    return h ^ h >> 16


class Stream:
    def __init__(self, seed, purpose, rank, step, bucket, segment):
        a = philox([step & MASK, step >> 32, bucket, segment], [seed & MASK, seed >> 32])
        self.k0, self.k1, _, _ = philox([a[0], a[1], rank, purpose], [a[2], a[3]])

    def number(self, i):
        return mix(mix((i + self.k0) & MASK) ^ self.k1)

    def quick(self, i):
        h = (i + self.k0) & MASK
        h = (h ^ h >> 16) * 0x7FEB352D & MASK
        h = (h ^ h >> 15 ^ self.k1) * 0x846CA68B & MASK
        return h ^ h >> 16


# Layouts and hashes ---------------------------------------------------------------------------------------------------


class Hash:
    """FNV-1a, 64 bits; a text is followed by the byte 255, a number is 8 bytes."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, what):
        data = what.encode() + b"\xff" if isinstance(what, str) else struct.pack("<Q", what)
        for byte in data:
            self.value = (self.value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        return self


class Layout:
    def __init__(self, segments, size):
        self.segments, self.size = segments, size  # segments: (name, offset, shape)

    def hash(self):
        h = Hash().add(self.size)
        for name, offset, shape in self.segments:
            h.add(name).add(offset).add(len(shape))
            for d in shape:
                h.add(d)
        return h.value

    def pieces(self, begin, end):
        """(segment number, first element of the bucket, one past the last, first element of the segment)"""
        for number, (_, offset, shape) in enumerate(self.segments):
            lo, hi = max(begin, offset), min(end, offset + math.prod(shape))
            if lo < hi:
                yield number, lo, hi, lo - offset


def lanes(terms):
    """The sum of doubles in 16 lanes, folded by halves."""
    lane = [0.0] * 16
    for i, term in enumerate(terms):
        lane[i % 16] += float(term)
    for half in (8, 4, 2, 1):
        for i in range(half):
            lane[i] += lane[i + half]
    return lane[0]


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def float_of(bits):
    return f32(struct.unpack("<f", struct.pack("<I", bits))[0])


def pack_bits(symbols, width):
    stream = 0
    for i, symbol in enumerate(symbols):
        stream |= symbol << (i * width)
    return stream.to_bytes((len(symbols) * width + 7) // 8, "little")


def blocks(values, size):
    size = size or max(len(values), 1)
    return [values[i : i + size] for i in range(0, len(values), size)]


# Quantisers: (values, random number of value j) -> (side information, packed symbols, decoded values) -------------------


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
    """Values of magnitude up to `norm` onto whole numbers of -top .. top."""

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


def quantise_levels(bits, size, norm_of, stochastic):
    """Blocks of values with a norm, levels of bits + 1 bits."""

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
        return side, pack_bits(symbols, bits + 1), decoded

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


def quantise_terngrad(clip):
    cut = lambda block: f32(min(float(most(block)), clip * math.sqrt(squares(block) / len(block))))
    return quantise_levels(1, 0, cut if clip else most, True)


def quantise_sign(block_size):
    def quantise(values, _):
        side, decoded = b"", []
        for block in blocks(values, block_size):
            mean = f32(lanes(abs(float(v)) for v in block) / len(block))
            side += struct.pack("<f", mean)
            decoded += [-mean if v < 0 else mean for v in block]
        return side, pack_bits([int(v < 0) for v in values], 1), decoded

    return quantise


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


# Transforms: a piece's values -> atoms, and back --------------------------------------------------------------------


class Elements:
    """No transform: an element is an atom."""

    split = 0  # floats of a row's first factor, when rows are products

    def atoms(self, values, shape, first):
        """Energies, rows, and the number of the first atom within the segment."""
        return list(values), [[v] for v in values], first

    def inverse(self, rows, count, shape, first):
        """`count` elements that the rows, by number of their atom, stand for."""
        return [rows[i][0] if i in rows else f32(0) for i in range(count)]


def chunks(count, chunk):
    begin = 0
    while begin < count:
        while chunk > count - begin:
            chunk //= 2
        yield begin, chunk
        begin += chunk


class Dct(Elements):
    def __init__(self, chunk):
        self.chunk = chunk

    def basis(self, n):
        k, j = np.arange(n)[:, None], np.arange(n)[None, :]
        return np.sqrt(np.where(k == 0, 1, 2) / n) * np.cos(np.pi * k * (2 * j + 1) / (2 * n))

    def atoms(self, values, shape, first):
        out = np.zeros(len(values))
        for begin, n in chunks(len(values), self.chunk):
            out[begin : begin + n] = self.basis(n) @ np.float64(values[begin : begin + n])
        return list(f32(out)), [[f32(v)] for v in out], first

    def inverse(self, rows, count, shape, first):
        out = np.array([rows[i][0] if i in rows else 0 for i in range(count)], dtype=np.float64)
        for begin, n in chunks(count, self.chunk):
            out[begin : begin + n] = self.basis(n).T @ out[begin : begin + n]
        return list(f32(out))


class Fft(Elements):
    def __init__(self, chunk):
        self.chunk = chunk

    def weights(self, n):
        k = np.arange(n // 2 + 1)
        return np.sqrt(np.where((k == 0) | (2 * k == n), 1, 2) / n)

    def atoms(self, values, shape, first):
        rows = []
        for begin, n in chunks(len(values), self.chunk):
            spectrum = np.fft.rfft(np.float64(values[begin : begin + n])) * self.weights(n)
            rows += [[f32(x.real), f32(x.imag)] for x in spectrum]
        return [f32(math.hypot(*map(float, row))) for row in rows], rows, first // self.chunk * (self.chunk // 2 + 1)

    def inverse(self, rows, count, shape, first):
        out, atom = [], 0
        for _, n in chunks(count, self.chunk):
            pairs = [rows.get(atom + k, [0, 0]) for k in range(n // 2 + 1)]
            spectrum = np.array([complex(*map(float, pair)) for pair in pairs]) / self.weights(n)
            out += list(f32(np.fft.irfft(spectrum, n) if n > 1 else spectrum.real))
            atom += n // 2 + 1
        return out


class Hadamard(Elements):
    def __init__(self, chunk):
        self.chunk = chunk

    def signed(self, value, number):
        return -value if mix(mix((number + 0x736F7474) & MASK) ^ 0x6F736967) >> 31 else value

    def transform(self, values):
        x, half = list(values), 1
        while half < len(x):
            for i in range(len(x)):
                if not i & half:
                    x[i], x[i + half] = x[i] + x[i + half], x[i] - x[i + half]
            half *= 2
        return x

    def atoms(self, values, shape, first):
        out = []
        for begin, n in chunks(len(values), self.chunk):
            factor = f32(1) / np.sqrt(f32(n))
            out += self.transform([self.signed(values[i], first + i) * factor for i in range(begin, begin + n)])
        return out, [[v] for v in out], first

    def inverse(self, rows, count, shape, first):
        out = []
        for begin, n in chunks(count, self.chunk):
            factor = f32(1) / np.sqrt(f32(n))
            x = self.transform([rows[i][0] * factor if i in rows else f32(0) for i in range(begin, begin + n)])
            out += [self.signed(v, first + begin + i) for i, v in enumerate(x)]
        return out


class Svd(Elements):
    """Exact, as for all matrices this small."""

    def matrix(self, shape):
        return (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))

    def atoms(self, values, shape, first):
        rows, cols = self.matrix(shape)
        self.split = rows
        u, sigma, v = np.linalg.svd(np.float64(values).reshape(rows, cols), full_matrices=False)
        return list(f32(sigma)), [list(f32(u[:, i])) + list(f32(sigma[i] * v[i])) for i in range(len(sigma))], 0

    def inverse(self, rows, count, shape, first):
        m, n = self.matrix(shape)
        out = np.zeros((m, n))
        for row in rows.values():
            out += np.outer(np.float64(row[:m]), np.float64(row[m:]))
        return list(f32(out.reshape(-1)))


# Selections: list of groups' energies -> numbers of the selected atoms and their scales, per group ---------------------


def largest(values, k):
    """Numbers of the k largest magnitudes, of equal ones the first, without zeros."""
    order = sorted((i for i, v in enumerate(values) if v != 0), key=lambda i: (-abs(float(values[i])), i))
    return sorted(order[:k])


def share(n, ratio):
    return min(math.ceil(n * ratio * (1 - 1e-12)), n)


def select_topk(ratio, scope):
    def select(pieces, streams):
        if scope == "segment":
            return [largest(p, share(len(p), ratio)) for p in pieces]
        flat = [v for p in pieces for v in p]
        chosen = set(largest(flat, share(len(flat), ratio)))
        result, first = [], 0
        for p in pieces:
            result.append([i for i in range(len(p)) if first + i in chosen])
            first += len(p)
        return result

    return select


def select_sampled(ratio):
    def one(values):
        n = len(values)
        size = max((n + 99) // 100, math.ceil(2 / ratio))
        stride = max(n // size, 1)
        sample = [abs(values[j * stride + (mix(j) * stride >> 32)]) for j in range(n // stride)]
        least = sorted(sample, reverse=True)[share(len(sample), ratio) - 1] if sample else f32(0)
        k = share(n, ratio)

        def reach():
            return [i for i, v in enumerate(values) if v != 0 and abs(v) >= least]

        for _ in range(10):
            if len(reach()) >= 0.8 * k:
                break
            least = least * f32(0.8)
        return largest(values, k) if len(reach()) > math.floor(1.3 * k) else reach()

    return lambda pieces, streams: [one(p) for p in pieces]


def select_threshold(value, kind):
    def select(pieces, streams):
        result = []
        for p in pieces:
            least = f32(value) if kind == "absolute" else f32(value) * max(abs(v) for v in p)
            result.append([i for i, v in enumerate(p) if v != 0 and abs(v) >= least])
        return result

    return select


def water_level(energies, s):
    """ATOMO's probabilities are min(1, |e| / level): by sorting, as the paper has it."""
    rest = sorted((abs(float(e)) for e in energies), reverse=True)
    while rest and sum(rest) > 0:
        if rest[0] * s <= sum(rest):
            return sum(rest) / s
        rest, s = rest[1:], s - 1
    return 0


def select_atomo(s, p, dense=0):
    def select(groups, streams):
        result = []
        for energies, (stream, number, dimensions) in zip(groups, streams):
            budget = s * len(energies) if s < 1 else s
            if dimensions <= 1 and len(energies) <= dense:
                factor = math.inf
            elif p == "waterfill":
                level = water_level(energies, budget)
                factor = 1 / level if level else math.inf
            elif p == "max":
                factor = 1 / max(abs(float(e)) for e in energies)
            chosen = []
            for i, e in enumerate(energies):
                probability = f32(min(factor, 3e38)) * abs(e) if factor < math.inf else f32(1)
                t = max(int(min(probability * f32(2**31), f32(2**31))), 1)
                if e != 0 and stream.quick(number + i) >> 1 < t:
                    chosen.append((i, f32(2**31) / f32(t)))
            result.append(chosen)
        return result

    return select


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def index_list(indices, atoms):
    """(flag, bytes): gaps, or a bitmap when that is smaller."""
    delta, following = b"", 0
    for i in indices:
        delta += varint(i - following)
        following = i + 1
    if len(delta) <= (atoms + 7) // 8:
        return 0, delta
    return 1, sum(1 << i for i in indices).to_bytes((atoms + 7) // 8, "little")


# Messages -----------------------------------------------------------------------------------------------------------


def zstd_rle(body):
    """A Zstandard frame (RFC 8878) of one run-length block: all bytes of the body must be equal."""
    assert len(set(body)) == 1 and len(body) < 256
    block = 1 | 1 << 1 | len(body) << 3  # last block, of type RLE
    return b"\x28\xb5\x2f\xfd" + bytes([0x20, len(body)]) + struct.pack("<I", block)[:3] + body[:1]


class Case:
    def __init__(self, name, sentence, quantise, select=None, layout="mixed", values=None, part=None, zstd=False,
                 transform=None, within=None):  # fmt: skip
        self.name, self.sentence, self.zstd = name, sentence, zstd
        self.layout = LAYOUTS[layout]
        self.part = part or (0, 0, self.layout.size)  # number, begin, end
        self.key = dict(seed=0x0123456789ABCDEF, rank=3, generation=2, step=1000, bucket=7)
        self.input = (values or INPUTS[layout])(self.layout)
        # Bytes of transforms depend on the rounding of sums, which their definitions leave open; not those of hadamard.
        self.compare = "decoded" if zstd else "near" if isinstance(transform, (Dct, Fft, Svd)) else "bytes"
        self.make(quantise, select, transform or Elements(), within)

    def stream(self, purpose, segment):
        key = self.key
        return Stream(key["seed"], purpose, key["rank"], key["step"], key["bucket"], segment)

    def choose(self, select, groups, purpose):
        """groups: (energies, segment, number of the first). Pairs (index, scale) of each."""
        if not select:
            return [[(i, f32(1)) for i in range(len(energies))] for energies, _, _ in groups]
        streams = [(self.stream(purpose, segment), number, len(self.layout.segments[segment][2])) for _, segment, number in groups]
        chosen = select([energies for energies, _, _ in groups], streams)
        return [[i if isinstance(i, tuple) else (i, f32(1)) for i in sel] for sel in chosen]

    def make(self, quantise, select, transform, within):
        number, begin, end = self.part
        key = self.key
        pieces = list(self.layout.pieces(begin, end))
        shapes = [self.layout.segments[segment][2] for segment, _, _, _ in pieces]
        atoms = [transform.atoms(list(self.input[lo:hi]), shape, first) for (_, lo, hi, first), shape in zip(pieces, shapes)]
        chosen = self.choose(select, [(a[0], piece[0], a[2]) for a, piece in zip(atoms, pieces)], SELECT)

        # What is quantised together: (piece, its floats, their numbers within the segment, where each belongs).
        units, indices, first_atom = [], [], 0
        for p, ((energies, rows, first), sel) in enumerate(zip(atoms, chosen)):
            unit, split = [], transform.split and (shapes[p][0] if len(shapes[p]) > 1 else 1)
            for i, scale in sel:
                width = len(rows[i])
                row = [(v * scale if not split or c < split else v, (first + i) * width + c, (i, c)) for c, v in enumerate(rows[i])]
                if split:
                    units += [(p, row[:split]), (p, row[split:])]
                else:
                    unit += row
            if not split:
                units.append((p, unit))
            indices += [first_atom + i for i, _ in sel]
            first_atom += len(energies)
        kept = self.choose(within, [([v for v, _, _ in unit], pieces[p][0], unit[0][1] if unit else 0) for p, unit in units], SELECT_WITHIN)

        sides, packs, indices_within, first_float = b"", b"", [], 0
        decoded_rows = [{i: [f32(0)] * len(a[1][i]) for i, _ in sel} for a, sel in zip(atoms, chosen)]
        for (p, unit), sel in zip(units, kept):
            stream = self.stream(QUANTISE, pieces[p][0])
            side, packed, back = quantise([unit[j][0] * scale for j, scale in sel], lambda j: stream.quick(unit[sel[j][0]][1]))
            sides, packs = sides + side, packs + packed
            for (j, _), x in zip(sel, back):
                atom, column = unit[j][2]
                decoded_rows[p][atom][column] = x
            indices_within += [first_float + j for j, _ in sel]
            first_float += len(unit)
        decoded = np.array([f32(0)] * self.layout.size)
        for (_, lo, hi, first), shape, rows in zip(pieces, shapes, decoded_rows):
            decoded[lo:hi] += np.array(transform.inverse(rows, hi - lo, shape, first), dtype=f32)

        sections, flags, lengths = [("side information", sides), ("symbols", packs)], 0, []
        if within:
            bitmap, listed = index_list(indices_within, first_float)
            flags |= bitmap << 2
            lengths = [("bytes of the second index list", struct.pack("<I", len(listed)))]
            sections.append((("second gaps", "second bitmap")[bitmap], listed))
        if select:
            bitmap, listed = index_list(indices, first_atom)
            flags |= bitmap
            lengths = [("bytes of the index list", struct.pack("<I", len(listed)))] + lengths
            sections.append((("gaps", "bitmap")[bitmap], listed))
        sections = lengths + sections
        if self.zstd:
            body = b"".join(data for _, data in sections)
            sections, flags = [("bytes of the body", struct.pack("<I", len(body))), ("Zstandard frame", zstd_rle(body))], flags | 2
        body = b"".join(data for _, data in sections)
        contract = Hash().add(self.sentence).add(self.layout.hash()).add(begin).add(end).value
        fields = [
            ("magic", struct.pack("<H", 0x6F73)),
            ("version", bytes([1])),
            ("flags", bytes([flags])),
            ("generation", struct.pack("<H", key["generation"])),
            ("origin", struct.pack("<H", key["rank"])),
            ("step", struct.pack("<I", key["step"])),
            ("bucket", struct.pack("<H", key["bucket"])),
            ("part", struct.pack("<H", number)),
            ("elements", struct.pack("<I", end - begin)),
            ("body bytes", struct.pack("<I", len(body))),
            ("contract", struct.pack("<I", (contract ^ contract >> 32) & MASK)),
        ]
        head = b"".join(data for _, data in fields)
        fields.append(("CRC-32 of the 28 bytes above and of the body", struct.pack("<I", zlib.crc32(head + body))))
        self.sections = fields + [(label, data) for label, data in sections if data]
        self.message = b"".join(data for _, data in self.sections)
        self.decoded = decoded

    def text(self):
        def rows(data, width):
            return "\n".join(data[i : i + width] for i in range(0, len(data), width))

        def floats(values):
            words = [f"{bits_of(v):08x}" for v in values]
            return rows("".join(w + (" " if i % 8 < 7 else "\n") for i, w in enumerate(words)), 10**9).rstrip()

        segments = "".join(f"segment {n} {o} {'x'.join(map(str, s)) or '-'}\n" for n, o, s in self.layout.segments)
        key = " ".join(str(self.key[k]) for k in ("seed", "rank", "generation", "step", "bucket"))
        return (
            f"# Made by tools/golden.py; floats as their bits.\nsentence {self.sentence}\n"
            f"compare {self.compare}\n{segments}size {self.layout.size}\nkey {key}\n"
            f"part {' '.join(map(str, self.part))}\ninput\n{floats(self.input)}\n"
            f"message\n{rows(self.message.hex(), 64)}\ndecoded\n{floats(self.decoded)}\n"
        )

    def example(self):
        values = " ".join(f"{float(v):g}" for v in self.input)
        decoded = " ".join(f"{float(v):.6g}" for v in self.decoded)
        lines = [f"{self.sentence}: {values}", ""]
        for label, data in self.sections:
            lines += [f"{data[i : i + 16].hex(' '):<48} {label if i == 0 else ''}".rstrip() for i in range(0, len(data), 16)]
        return "\n".join(lines + ["", f"decoded: {decoded}"])


# Inputs -------------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "small": Layout([("w", 0, (5,))], 5),
    "matrix": Layout([("w", 0, (2, 3))], 6),
    "mixed": Layout([("conv", 0, (2, 2, 2, 3)), ("bias", 32, (1,)), ("scalar", 48, ()), ("fc", 64, (3, 13))], 112),
}


def small(layout):
    return np.array([1, -2, 0.5, 0, -0.25], dtype=f32)


def matrix(layout):
    return np.array([1, -2, 0.5, 0, -0.25, 3], dtype=f32)


def mixed(layout):
    """Values of many magnitudes with equal ones, both zeros, and a spike; padding is zero."""
    out = np.zeros(layout.size, dtype=f32)
    state = 12345
    for number, lo, hi, _ in layout.pieces(0, layout.size):
        for i in range(lo, hi):
            state = (state * 1103515245 + 12345) % 2**31
            out[i] = f32((state / 2**30 - 1) * 10.0 ** (state % 5 - 3))
    out[3], out[4], out[5], out[6], out[70], out[80] = 0.0, -0.0, out[2], -out[2], 40.0, -40.0
    return out


def extreme(layout):
    """Far beyond the range of half precision on both sides, and denormals."""
    out = mixed(layout)
    out[0:4] = [f32(1e30), f32(-1e30), f32(3.4028235e38), f32(70000)]
    out[32] = f32(1e-45)
    out[48] = f32(-3e-42)
    out[64:68] = [f32(1e-9), f32(-2e-9), f32(3e-7), f32(-1e-12)]
    out[68:103] = out[68:103] * f32(1e-9)
    return out


def few_large(layout):
    """A few elements far above the others."""
    out = mixed(layout)
    out[64:103] = out[64:103] * f32(1e-6)
    out[64:103:9] = f32(3)
    return out


def zeros(layout):
    return np.zeros(layout.size, dtype=f32)


INPUTS = {"small": small, "matrix": matrix, "mixed": mixed}


def cases():
    qsgd, sign, int8 = quantise_qsgd, quantise_sign, quantise_int8
    int4, terngrad = quantise_int4, quantise_terngrad
    topk, threshold, atomo = select_topk, select_threshold, select_atomo
    svd = "svd(rank=16, exact=64, probes=1, reshape=rows)"
    topk_small = "topk(ratio=0.4, scope=segment)"
    cut = (1, 7, 90)  # part 1, which cuts two segments
    return [
        # The worked examples of docs/wire.md.
        Case("small-f32", "f32", quantise_f32, layout="small"),
        Case("small-f16", "f16", quantise_f16, layout="small"),
        Case("small-bf16", "bf16", quantise_bf16, layout="small"),
        Case("small-qsgd", "qsgd(bits=4, bucket=512, norm=max)", qsgd(4, 512, "max"), layout="small"),
        Case("small-sign", "sign(block=0)", sign(0), layout="small"),
        Case("small-int8", "int8(block=256, stochastic=false)", int8(256, False), layout="small"),
        Case("small-int4", "int4(block=64, stochastic=false)", int4(64, False), layout="small"),
        Case("small-terngrad", "terngrad(clip=2.5)", terngrad(2.5), layout="small"),
        Case("small-topk", f"{topk_small} | f32", quantise_f32, topk(0.4, "segment"), layout="small"),
        Case("small-sampled_topk", "sampled_topk(ratio=0.4) | f32", quantise_f32, select_sampled(0.4), layout="small"),
        Case("small-threshold", "threshold(value=0.5, kind=absolute) | f32", quantise_f32, threshold(0.5, "absolute"), layout="small"),
        Case("small-atomo", "atomo(s=2, p=waterfill, scope=segment, dense=0) | f32", quantise_f32, atomo(2, "waterfill"), layout="small"),
        Case("small-dct", f"dct(chunk=4) | {topk_small} | f32", quantise_f32, topk(0.4, "segment"), layout="small", transform=Dct(4)),
        Case("small-fft", f"fft(chunk=4) | {topk_small} | f32", quantise_f32, topk(0.4, "segment"), layout="small", transform=Fft(4)),
        Case("small-hadamard", "hadamard(chunk=4) | f32", quantise_f32, layout="small", transform=Hadamard(4)),
        Case("small-svd", f"{svd} | {topk_small} | f32", quantise_f32, topk(0.4, "segment"), layout="matrix", transform=Svd()),
        Case("small-zstd", "f32 | zstd(level=1)", quantise_f32, layout="small", values=zeros, zstd=True),
        # Several segments, padding, special values.
        Case("f32", "f32", quantise_f32),
        Case("f32-part", "f32", quantise_f32, part=cut),
        Case("f16", "f16", quantise_f16),
        Case("f16-extreme", "f16", quantise_f16, values=extreme),
        Case("bf16", "bf16", quantise_bf16, values=extreme),
        Case("qsgd", "qsgd(bits=4, bucket=512, norm=max)", qsgd(4, 512, "max")),
        Case("qsgd-bits1", "qsgd(bits=1, bucket=7, norm=max)", qsgd(1, 7, "max")),
        Case("qsgd-bits8-l2", "qsgd(bits=8, bucket=20, norm=l2)", qsgd(8, 20, "l2")),
        Case("qsgd-part", "qsgd(bits=3, bucket=512, norm=l2)", qsgd(3, 512, "l2"), part=cut),
        Case("qsgd-extreme", "qsgd(bits=4, bucket=512, norm=l2)", qsgd(4, 512, "l2"), values=extreme),
        Case("sign", "sign(block=0)", sign(0)),
        Case("sign-block", "sign(block=9)", sign(9), values=extreme),
        Case("int8", "int8(block=256, stochastic=false)", int8(256, False)),
        Case("int8-stochastic", "int8(block=10, stochastic=true)", int8(10, True), values=extreme),
        Case("int4", "int4(block=64, stochastic=false)", int4(64, False)),
        Case("int4-stochastic", "int4(block=9, stochastic=true)", int4(9, True), values=extreme),
        Case("terngrad", "terngrad(clip=2.5)", terngrad(2.5)),
        Case("terngrad-extreme", "terngrad(clip=0)", terngrad(0), values=extreme),
        Case("topk-terngrad-part", "topk(ratio=0.3, scope=segment) | terngrad(clip=1)", terngrad(1), topk(0.3, "segment"), part=cut),
        Case("topk", "topk(ratio=0.05, scope=segment) | f32", quantise_f32, topk(0.05, "segment")),
        Case("topk-bitmap", "topk(ratio=0.5, scope=segment) | sign(block=0)", sign(0), topk(0.5, "segment")),
        Case("topk-bucket", "topk(ratio=0.1, scope=bucket) | f16", quantise_f16, topk(0.1, "bucket")),
        Case("topk-qsgd-part", "topk(ratio=0.2, scope=segment) | qsgd(bits=4, bucket=4, norm=max)", qsgd(4, 4, "max"), topk(0.2, "segment"), part=cut),
        Case("sampled_topk", "sampled_topk(ratio=0.07) | f32", quantise_f32, select_sampled(0.07)),
        Case("sampled_topk-few", "sampled_topk(ratio=0.4) | bf16", quantise_bf16, select_sampled(0.4), values=few_large),
        Case("threshold", "threshold(value=0.75, kind=relative) | bf16", quantise_bf16, threshold(0.75, "relative")),
        Case("threshold-empty", "threshold(value=100, kind=absolute) | int8(block=256, stochastic=true)", int8(256, True), threshold(100, "absolute")),
        Case("atomo", "atomo(s=5, p=waterfill, scope=segment, dense=0) | qsgd(bits=4, bucket=4, norm=max)", qsgd(4, 4, "max"), atomo(5, "waterfill")),
        Case("atomo-share", "atomo(s=20%, p=waterfill, scope=segment, dense=1) | f32", quantise_f32, atomo(0.2, "waterfill", 1)),
        Case("atomo-max", "atomo(s=none, p=max, scope=segment, dense=0) | sign(block=0)", sign(0), atomo(0, "max"), part=cut),
        Case("atomo-extreme", "atomo(s=3, p=waterfill, scope=segment, dense=0) | f32", quantise_f32, atomo(3, "waterfill"), values=extreme),
        Case("dct", "dct(chunk=8) | f32", quantise_f32, transform=Dct(8)),
        Case("dct-atomo", "dct(chunk=8) | atomo(s=5, p=waterfill, scope=segment, dense=0) | f32", quantise_f32, atomo(5, "waterfill"), transform=Dct(8)),
        Case("fft", "fft(chunk=16) | f32", quantise_f32, transform=Fft(16)),
        Case("fft-topk", "fft(chunk=4) | topk(ratio=0.3, scope=segment) | f32", quantise_f32, topk(0.3, "segment"), transform=Fft(4)),
        Case("hadamard", "hadamard(chunk=8) | qsgd(bits=4, bucket=512, norm=max)", qsgd(4, 512, "max"), transform=Hadamard(8)),
        Case("hadamard-topk-part", "hadamard(chunk=2) | topk(ratio=0.3, scope=segment) | f32", quantise_f32, topk(0.3, "segment"), part=(1, 8, 96), transform=Hadamard(2)),
        Case("svd", f"{svd} | f32", quantise_f32, transform=Svd()),
        Case("svd-topk", f"{svd} | topk(ratio=0.5, scope=segment) | f16", quantise_f16, topk(0.5, "segment"), transform=Svd()),
        Case("svd-within", f"{svd} | topk(ratio=0.5, scope=segment) | topk(ratio=0.4, scope=segment) | f32", quantise_f32, topk(0.5, "segment"), transform=Svd(), within=topk(0.4, "segment")),
        Case("zstd", "qsgd(bits=4, bucket=512, norm=max) | zstd(level=1)", qsgd(4, 512, "max"), values=zeros, zstd=True),
    ]  # fmt: skip


def with_examples(document, made):
    """docs/wire.md with the block after each `<!-- golden NAME -->` replaced."""
    for case in made:
        mark = f"<!-- golden {case.name} -->\n"
        if mark in document:
            before, after = document.split(mark)
            _, _, rest = after.partition("\n```\n")
            document = f"{before}{mark}```\n{case.example()}\n```\n{rest}"
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a file differs")
    check = parser.parse_args().check
    np.seterr(under="ignore")
    made = cases()
    files = {GOLDEN / f"{case.name}.hex": case.text() for case in made}
    files[WIRE] = with_examples(WIRE.read_text(), made)
    stale = sorted(set(GOLDEN.glob("*.hex")) - set(files))
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if check:
        for path in wrong + stale:
            print(f"{path.relative_to(ROOT)} is not what tools/golden.py makes", file=sys.stderr)
        return 1 if wrong or stale else 0
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for path in wrong:
        path.write_text(files[path])
    for path in stale:
        path.unlink()
    print(f"{len(wrong)} of {len(files)} files written, {len(stale)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
