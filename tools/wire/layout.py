"""Layouts, and the hash of layouts and codecs."""

import math
import struct


class Hash:
    """FNV-1a, 64 bits. A text is followed by the byte 255; a number is 8 bytes."""

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
