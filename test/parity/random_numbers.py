"""The engine's random numbers, as its documentation defines them and not as its code computes them: Philox4x32-10
(Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Element i of a logical tensor takes word i % 4
of the block with the counter (i // 4, step), 32 bits a word, low word first, under the key of who draws: splitmix64 of
the job's seed and of the FNV-1a hash of the drawing node's key.
"""
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & M64
    return value


def key_of(seed, text):
    z = (seed * 0x9E3779B97F4A7C15 + fnv1a(text)) & M64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def philox(key, counter):
    """The block of a counter of four words under a key of two."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for i in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0, c1, c2, c3


def uniform(key, step, count):
    """The numbers in [0, 1) of the first elements, each a multiple of 2^-24."""
    words = []
    for block in range((count + 3) // 4):
        words += philox((key & M32, key >> 32), (block & M32, block >> 32, step & M32, step >> 32))
    return [(word >> 8) / (1 << 24) for word in words[:count]]
