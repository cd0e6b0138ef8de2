"""Random numbers."""

MASK = 0xFFFFFFFF
QUANTISE, SELECT, SELECT_WITHIN = 1, 2, 9  # purposes


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


def hash64(key, seed):
    """Output number key + 1 of SplitMix64."""
    mask = 0xFFFFFFFFFFFFFFFF
    h = (seed + (key + 1) * 0x9E3779B97F4A7C15) & mask
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & mask
    h = (h ^ h >> 27) * 0x94D049BB133111EB & mask
    return h ^ h >> 31


class Stream:
    @classmethod
    def of_keys(cls, k0, k1):
        stream = cls.__new__(cls)
        stream.k0, stream.k1 = k0, k1
        return stream

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
