"""A golden message: a codec, its input, the message, and the decoded values."""

import itertools
import math

import numpy as np

from .code import coded_symbols
from .draws import QUANTISE, SELECT, SELECT_WITHIN, Stream
from .floats import bits_of, f32
from .index import index_list
from .inputs import INPUTS, LAYOUTS
from .message import body, bytes_of, compressed, message
from .transform import Dct, Elements, Fft, Svd


class Draws:
    """The random number of value j."""

    def __init__(self, stream, numbers):
        self.stream, self.numbers = stream, numbers

    def __call__(self, j):
        return self.stream.quick(self.numbers[j])


class Case:
    def __init__(self, name, codec, quantise, select=None, layout="mixed", values=None, part=None, whole=None,
                 transform=None, within=None, code=None):  # fmt: skip
        self.name, self.codec = name, codec
        self.layout = LAYOUTS[layout]
        self.part = part or (0, 0, self.layout.size)  # number, begin, end
        self.pool = getattr(quantise, "scope", "segment") == "bucket"  # all pieces are one unit
        self.key = dict(seed=0x0123456789ABCDEF, rank=3, generation=2, step=1000, bucket=7)
        self.input = (values or INPUTS[layout])(self.layout)
        # The bytes of these transforms depend on the rounding of sums, which docs/wire leaves open (but not of hadamard).
        self.compare = "decoded" if whole or code and code[0] == "Blosc buffer" else "near" if isinstance(transform, (Dct, Fft, Svd)) else "bytes"

        self.pieces = list(self.layout.pieces(*self.part[1:]))
        self.shapes = [self.layout.segments[segment][2] for segment, _, _, _ in self.pieces]
        flags, stretches = self.encode(quantise, select, transform or Elements(), within)
        if whole:
            flags, stretches = compressed(flags, stretches, *whole)
        if code:
            flags, stretches = coded_symbols(flags, stretches, code, self.runs)
        self.sections = message(self.codec, self.layout, self.part, self.key, flags, stretches)
        self.message = bytes_of(self.sections)

    def stream(self, purpose, segment, known=False):
        key = self.key
        return Stream(key["seed"], purpose, 0 if known else key["rank"], key["step"], key["bucket"], segment)

    def choose(self, select, groups, purpose):
        """Pairs (index, scale) for each of the groups, which are (energies, segment, number of the first atom)."""
        if not select:
            return [[(i, f32(1)) for i in range(len(energies))] for energies, _, _ in groups]
        known = getattr(select, "known", False)
        shapes = [self.layout.segments[segment][2] for _, segment, _ in groups]
        streams = [(self.stream(purpose, segment, known), number, len(shape), math.prod(shape)) for (_, segment, number), shape in zip(groups, shapes)]
        chosen = select([energies for energies, _, _ in groups], streams)
        return [[i if isinstance(i, tuple) else (i, f32(1)) for i in sel] for sel in chosen]

    def encode(self, quantise, select, transform, within):
        """Returns flags and stretches of the body. Sets `decoded` and, for each unit, `runs`: (packed symbols, their number,
        their runs as (width, kind, number) if the quantiser gives them)."""
        atoms = [transform.atoms(list(self.input[lo:hi]), shape, first) for (_, lo, hi, first), shape in zip(self.pieces, self.shapes)]
        chosen = self.choose(select, [(a[0], piece[0], a[2]) for a, piece in zip(atoms, self.pieces)], SELECT)
        block, indices, first_block = getattr(select, "block", 1), [], 0
        for (energies, _, _), sel in zip(atoms, chosen):
            indices += [first_block + i for i in sorted({i // block for i, _ in sel})]
            first_block += -(-len(energies) // block)

        units = self.units(atoms, chosen, transform)
        groups = [([v for v, _, _ in unit], self.pieces[p][0], unit[0][1] if unit else 0) for p, unit in units]
        kept = self.choose(within, groups, SELECT_WITHIN)
        rows = [{i: [f32(0)] * len(a[1][i]) for i, _ in sel} for a, sel in zip(atoms, chosen)]  # the decoded rows
        sides, symbols, indices_within, first_float = b"", b"", [], 0
        self.runs = []
        for (p, unit), sel in zip(units, kept):
            stream = self.stream(QUANTISE, self.pieces[p][0])
            side, packed, back, *told = quantise([unit[j][0] * scale for j, scale in sel], Draws(stream, [unit[j][1] for j, _ in sel]))
            sides, symbols = sides + side, symbols + packed
            self.runs.append((packed, len(sel), told[0] if told else None))
            for (j, _), x in zip(sel, back):
                piece, atom, column = unit[j][2]
                rows[piece][atom][column] = x
            indices_within += [first_float + j for j, _ in sel]
            first_float += len(unit)

        self.decoded = np.array([f32(0)] * self.layout.size)
        for (_, lo, hi, first), shape, some in zip(self.pieces, self.shapes, rows):
            self.decoded[lo:hi] += np.array(transform.inverse(some, hi - lo, shape, first), dtype=f32)
        seed = self.key["seed"] if getattr(select, "known", False) else None
        listed = index_list(indices, first_block) if select and seed is None else None
        return body(sides, symbols, listed, within and index_list(indices_within, first_float), seed)

    def units(self, atoms, chosen, transform):
        """The units, which are quantised separately: (piece, list of (float, number in the segment, (piece, atom, column)))."""
        units = self.units_of_pieces(atoms, chosen, transform)
        return [(0, [value for _, unit in units for value in unit])] if self.pool else units

    def units_of_pieces(self, atoms, chosen, transform):
        units = []
        for p, ((_, rows, first), sel) in enumerate(zip(atoms, chosen)):
            unit, split = [], transform.split and (self.shapes[p][0] if len(self.shapes[p]) > 1 else 1)
            for i, scale in sel:
                width = len(rows[i])
                row = [(v * scale if not split or c < split else v, (first + i) * width + c, (p, i, c)) for c, v in enumerate(rows[i])]
                if split:
                    units += [(p, row[:split]), (p, row[split:])]
                else:
                    unit += row
            if not split:
                units.append((p, unit))
        return units

    def text(self):
        def rows(data, width):
            return "\n".join(data[i : i + width] for i in range(0, len(data), width))

        def floats(values):
            words = [f"{bits_of(v):08x}" for v in values]
            if len(words) > 10000:  # run-length encoded: WORD*COUNT
                runs = [(word, len(list(some))) for word, some in itertools.groupby(words)]
                return "\n".join(word if count == 1 else f"{word}*{count}" for word, count in runs)
            return rows("".join(w + (" " if i % 8 < 7 else "\n") for i, w in enumerate(words)), 10**9).rstrip()

        segments = "".join(f"segment {n} {o} {'x'.join(map(str, s)) or '-'}\n" for n, o, s in self.layout.segments)
        key = " ".join(str(self.key[k]) for k in ("seed", "rank", "generation", "step", "bucket"))
        return (
            f"# Made by tools/golden.py; floats as their bits.\nsentence {self.codec}\n"
            f"compare {self.compare}\n{segments}size {self.layout.size}\nkey {key}\n"
            f"part {' '.join(map(str, self.part))}\ninput\n{floats(self.input)}\n"
            f"message\n{rows(self.message.hex(), 64)}\ndecoded\n{floats(self.decoded)}\n"
        )

    def example(self):
        def numbers(values, form):  # "0*4": four zeros
            runs = [(word, len(list(some))) for word, some in itertools.groupby(format(float(v), form) for v in values)]
            return " ".join(f"{word}*{count}" if count > 2 else " ".join([word] * count) for word, count in runs)

        lines = [f"{self.codec}: {numbers(self.input, 'g')}", ""]
        for label, data in self.sections:
            lines += [f"{data[i : i + 32].hex(' ', -4):<72} {label if i == 0 else ''}".rstrip() for i in range(0, len(data), 32)]
        return "\n".join(lines + ["", f"decoded: {numbers(self.decoded, '.6g')}"])
