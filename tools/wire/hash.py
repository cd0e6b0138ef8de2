"""The hash of sketches and tables."""

MASK = 2**64 - 1


def hash64(key, seed=0):
    h = (seed + (key + 1) * 0x9E3779B97F4A7C15) & MASK
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & MASK
    h = (h ^ h >> 27) * 0x94D049BB133111EB & MASK
    return h ^ h >> 31


def place_of(bits, places):
    return bits * places >> 32
