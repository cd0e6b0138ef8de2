"""Lists of indices."""


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
