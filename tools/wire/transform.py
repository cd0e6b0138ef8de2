"""Transforms of a piece's values to atoms and back."""

import math

import numpy as np

from .draws import MASK, Stream, hash64, mix
from .floats import f32
from .select import largest, share


class Elements:
    """No transform: every element is an atom."""

    split = 0  # floats of a row's first factor, when rows are products

    def atoms(self, values, shape, first):
        """(energies, rows, number of the first atom in the segment). `first`: number of the piece's first element."""
        return list(values), [[v] for v in values], first

    def inverse(self, rows, count, shape, first):
        """The `count` elements of the piece. `rows`: the rows of the selected atoms by their number."""
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


class Dct2(Dct):
    """DCT of the tiles of a matrix. `side`: the longest side that a tile may have."""

    def __init__(self, side):
        self.side = side

    def tiles(self, shape):
        """For each tile, row by row, the matrix of its element numbers."""
        rows, cols = (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))
        h, w = (max(d for d in range(1, self.side + 1) if n % d == 0) for n in (rows, cols))
        numbers = np.arange(rows * cols).reshape(rows, cols)
        return [numbers[y : y + h, x : x + w] for y in range(0, rows, h) for x in range(0, cols, w)]

    def atoms(self, values, shape, first):
        out = []
        for tile in self.tiles(shape):
            out += list(f32(self.basis(tile.shape[0]) @ np.float64(values)[tile] @ self.basis(tile.shape[1]).T).ravel())
        return out, [[v] for v in out], 0

    def inverse(self, rows, count, shape, first):
        out, atom = np.zeros(count), 0
        for tile in self.tiles(shape):
            there = np.array([rows[i][0] if i in rows else 0 for i in range(atom, atom + tile.size)], dtype=np.float64)
            out[tile] = self.basis(tile.shape[0]).T @ there.reshape(tile.shape) @ self.basis(tile.shape[1])
            atom += tile.size
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
    """The exact decomposition, which the codec also uses for matrices as small as these."""

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


class Sketch(Elements):
    """count_sketch, or count_min if not `signed`. `columns` and `keep` are numbers or, below 1, shares."""

    def __init__(self, signed, rows, columns, keep, seed):
        self.signed, self.rows, self.columns, self.keep, self.seed = signed, rows, columns, keep, seed

    def amount(self, a, n):
        return share(n, a) if a < 1 else min(a, n)

    def shape(self, n):
        """(number of windows, their width), or None when elements are sent without a sketch."""
        columns = self.amount(self.columns, n)
        windows = -(-columns // 4096)
        cells = self.rows * windows * (columns // windows)
        return (windows, columns // windows) if (1 if self.signed else 2) * cells < n else None

    def place(self, shape, row, element):
        """(cell in the row, whether the sign is minus)."""
        windows, width = shape
        key = row << 32 | element // 4096
        columns, window = (hash64(2 * key + i, self.seed) for i in range(2))
        h = Stream.of_keys(columns & MASK, columns >> 32).quick(element)
        return (window >> 32) * windows // 2**32 * width + ((h >> 12) * width >> 20), h & 1

    def atoms(self, values, shape, first):
        shape = self.shape(len(values))
        if not shape:
            return super().atoms(values, shape, first)
        size = self.rows * shape[0] * shape[1]
        cells = [f32(0)] * (size if self.signed else 2 * size)
        for i, v in enumerate(values):
            for row in range(self.rows):
                cell, minus = self.place(shape, row, first + i)
                at = row * shape[0] * shape[1] + cell
                if self.signed:
                    cells[at] += -v if minus else v
                else:
                    cells[at + (size if np.signbit(v) else 0)] += abs(v)
        return cells, [[v] for v in cells], first

    def estimate(self, cells, shape, element):
        size, read = self.rows * shape[0] * shape[1], []
        for row in range(self.rows):
            cell, minus = self.place(shape, row, element)
            at = row * shape[0] * shape[1] + cell
            read.append((-cells[at] if minus else cells[at]) if self.signed else (cells[at], cells[at + size]))
        if self.signed:
            return sorted(read)[self.rows // 2]
        return min(above for above, _ in read) - min(below for _, below in read)

    def inverse(self, rows, count, shape, first):
        shape = self.shape(count)
        if not shape:
            return super().inverse(rows, count, shape, first)
        size = (1 if self.signed else 2) * self.rows * shape[0] * shape[1]
        cells = [rows[i][0] if i in rows else f32(0) for i in range(size)]
        estimates = [self.estimate(cells, shape, first + i) for i in range(count)]
        kept = set(largest(estimates, self.amount(self.keep, count)))
        return [v if i in kept else f32(0) for i, v in enumerate(estimates)]
