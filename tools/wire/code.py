"""Entropy codes of symbols, see docs/wire/codes.md. A stream consists of runs: symbols of one width."""

import struct

CODED_BITS, STRETCH = 9, 1 << 17


class Bits:
    """A stream of bits; the first one is the least significant of a byte."""

    def __init__(self):
        self.bits = []

    def put(self, value, count):
        self.bits += [value >> b & 1 for b in range(count)]

    def gamma(self, value):
        below = value.bit_length() - 1
        self.bits += [0] * below + [1]
        self.put(value - (1 << below), below)

    def bytes(self):
        padded = self.bits + [0] * (-len(self.bits) % 8)
        return bytes(sum(padded[i + b] << b for b in range(8)) for i in range(0, len(padded), 8))


def share_out(counts, precision):
    total, occurring = sum(counts), sum(c > 0 for c in counts)
    out = [c and 1 + c * ((1 << precision) - occurring) // total for c in counts]
    out[counts.index(max(counts))] += (1 << precision) - sum(out)
    return out


def counted(symbols, alphabet):
    counts = [0] * alphabet
    for s in symbols:
        counts[s] += 1
    return counts


class Rans:
    def __init__(self, model="static"):
        self.model = model

    def table(self, symbols, alphabet):
        if self.model == "adaptive":
            return None, b""
        counts = counted(symbols, alphabet)
        few = sum(c > 0 for c in counts) <= 64 and 4 * max(counts) <= 3 * sum(counts)
        precision = max(10, min(sum(counts).bit_length(), 12 if few else 14))
        frequencies = share_out(counts, precision)
        bits = Bits()
        bits.put(precision, 8)
        left = 1 << precision
        for f in frequencies:
            if left == 0:
                break
            bits.gamma(f + 1)
            left -= f
        return (precision, frequencies), bits.bytes()

    def models(self, table, symbols, alphabet):
        """(precision, frequencies) to encode each of the symbols with."""
        if table:
            return [table] * len(symbols)
        out, counts, length = [], [1] * alphabet, 256
        precision = 12 if alphabet <= 64 else 14
        while len(out) < len(symbols):
            block = symbols[len(out) : len(out) + length]
            out += [(precision, share_out(counts, precision))] * len(block)
            counts = [a + b for a, b in zip(counts, counted(block, alphabet))]
            if sum(counts) > 1 << 16:
                counts = [(c + 1) // 2 for c in counts]
            length = min(2 * length, 8192)
        return out

    def chunk(self, table, symbols, alphabet):
        many = self.chunk_of(32, table, symbols, alphabet)
        return many if len(many) >= 8192 else self.chunk_of(4, table, symbols, alphabet)

    def chunk_of(self, lanes, table, symbols, alphabet):
        states = [1 << 16] * lanes
        words = []
        models = self.models(table, symbols, alphabet)
        for i in range(len(symbols) - 1, -1, -1):
            (precision, frequencies), s, lane = models[i], symbols[i], i % len(states)
            f, start = frequencies[s], sum(frequencies[:s])
            if states[lane] >= f << 32 - precision:
                words.append(states[lane] & 0xFFFF)
                states[lane] >>= 16
            states[lane] = (states[lane] // f << precision) + states[lane] % f + start
        return struct.pack(f"<{len(states)}I{len(words)}H", *states, *reversed(words))


class Huffman:
    LONGEST = 12

    def __init__(self, model="static"):
        self.model = model

    def lengths(self, counts):
        leaves = sorted((c, s) for s, c in enumerate(counts) if c)
        if len(leaves) == 1:
            return [int(s in (leaves[0][1], leaves[0][1] ^ 1)) for s in range(len(counts))]
        items = [(c, [s]) for c, s in leaves]
        coins = []
        for _ in range(self.LONGEST):
            pairs = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(coins[0::2], coins[1::2])]
            coins = sorted(items + pairs, key=lambda coin: coin[0])  # stable: symbols before pairs
        out = [0] * len(counts)
        for _, symbols in coins[: 2 * len(leaves) - 2]:
            for s in symbols:
                out[s] += 1
        return out

    def table(self, symbols, alphabet):
        lengths = self.lengths(counted(symbols, alphabet))
        words, code = {}, 0
        for length in range(1, self.LONGEST + 1):
            for s in range(alphabet):
                if lengths[s] == length:
                    words[s] = [code >> (length - 1 - b) & 1 for b in range(length)]
                    code += 1
            code *= 2
        bits, left = Bits(), 1 << self.LONGEST
        for length in lengths:
            if left == 0:
                break
            bits.put(length, 4)
            left -= (1 << self.LONGEST - length) if length else 0
        return words, bits.bytes()

    def chunk(self, words, symbols, alphabet):
        bits = Bits()
        for s in symbols:
            bits.bits += words[s]
        return bits.bytes()


class Elias:
    model = "static"

    def __init__(self, gaps=True):
        self.gaps = gaps

    def table(self, symbols, alphabet):
        return None, b""

    def chunk(self, table, symbols, alphabet):
        bits, zeros = Bits(), 0
        for s in symbols:
            if not self.gaps:
                bits.gamma(s + 1)
            elif s == 0:
                zeros += 1
            else:
                bits.gamma(zeros + 1)
                bits.gamma(s)
                zeros = 0
        if self.gaps and (zeros or not symbols or symbols[-1] == 0):
            bits.gamma(zeros + 1)
        return bits.bytes()


def stream(code, runs):
    """The coded bytes of runs, which are (unit, kind, width, symbols)."""
    runs = [run for run in runs if run[3]]
    of = lambda run: run[:3] if code.model == "segment" else run[1:3]
    out = b""
    for which in sorted({of(run) for run in runs}):
        group = [symbols for *run, symbols in runs if of(tuple(run)) == which]
        width = which[-1]
        coded = min(width, CODED_BITS)
        plain = width - coded
        high = [[s >> plain for s in symbols] for symbols in group]
        table, told = code.table([s for run in high for s in run], 1 << coded)
        for symbols in group:
            bits = Bits()
            for s in symbols:
                bits.put(s & (1 << plain) - 1, plain)
            told += bits.bytes()
        chunks = []
        for run in high:
            for begin in range(0, len(run), STRETCH):
                if not chunks or len(chunks[-1]) >= STRETCH:
                    chunks.append([])
                chunks[-1] += run[begin : begin + STRETCH]
        coded_chunks = [code.chunk(table, chunk, 1 << coded) for chunk in chunks]
        out += told + b"".join(struct.pack("<I", len(c)) for c in coded_chunks) + b"".join(coded_chunks)
    return out


def unpacked(data, width, count):
    """The symbols of a packed run."""
    number = int.from_bytes(data, "little")
    return [number >> i * width & (1 << width) - 1 for i in range(count)]


def entropy(code, width=None):
    """The `code` of a Case: (label, function that codes units, which are (packed symbols, number, runs or None))."""

    def runs_of(unit, data, count, told):
        at = 0
        for its_width, kind, its_count in told or [(width, 0, count)]:
            size = (its_count * its_width + 7) // 8
            yield unit, kind, its_width, unpacked(data[at : at + size], its_width, its_count)
            at += size

    return "coded symbols", lambda units: stream(code, [run for u, unit in enumerate(units) for run in runs_of(u, *unit)])


def coded_symbols(flags, stretches, code, runs):
    """Flags and stretches of a body after its symbols were coded."""
    label, coded = code
    by_kind = [[], [], []]  # lengths and seeds, index lists, side information
    for stretch in stretches:
        if stretch[0] != "symbols":
            by_kind[0 if stretch[0].startswith(("bytes of", "seed")) else 2 if stretch[0] == "side information" else 1].append(stretch)
    new = [*by_kind[0], *by_kind[1], *by_kind[2], (label, coded(runs))]
    assert sum(len(d) for _, d in new) < sum(len(d) for _, d in stretches), "it would go as it is"
    return flags | 2, new


def lz4_block(body):
    """An LZ4 block of equal bytes: a literal, a match of all others but the last five, and those as literals."""
    assert len(set(body)) == 1 and len(body) > 13
    match = len(body) - 1 - 5 - 4
    more, left = b"", match - 15
    while left >= 0:
        more += bytes([min(left, 255)])
        left -= 255
    return bytes([1 << 4 | min(match, 15)]) + body[:1] + struct.pack("<H", 1) + more + bytes([5 << 4]) + body[-5:]


def blosc_buffer(runs):
    """A Blosc buffer of one block of equal bytes, which shuffling does not change. Symbols are bytes."""
    body = b"".join(data for data, *_ in runs)
    block = lz4_block(body)
    flags = 0x04 | 1 << 5 | 0x10  # bits shuffled, LZ4, blocks not split
    coded = struct.pack("<I", 20) + struct.pack("<I", len(block)) + block
    return bytes([2, 1, flags, 1]) + struct.pack("<III", len(body), len(body), 16 + len(coded)) + coded
