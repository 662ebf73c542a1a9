"""The project's random numbers and data in NumPy: what jobs read, batch by batch, and what dropout keeps."""
import gzip
import math

import numpy as np
import torch

_U32 = np.uint64(0xFFFFFFFF)


def philox(key, c0, c1, c2, c3):
    """Philox4x32-10 of arrays of counters (uint64 holding 32 bits) under one 64-bit key; four arrays of 32 bits."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) & _U32 for c in np.broadcast_arrays(c0, c1, c2, c3))
    k0, k1 = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ k0, p1 & _U32, (p0 >> np.uint64(32)) ^ c3 ^ k1, p0 & _U32
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & _U32, (k1 + np.uint64(0xBB67AE85)) & _U32
    return c0, c1, c2, c3


def random_key(seed, fingerprint):
    """splitmix64 of the mix of seed and fingerprint."""
    mask = (1 << 64) - 1
    z = (seed * 0x9E3779B97F4A7C15 + fingerprint) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def fingerprint(text):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & ((1 << 64) - 1)
    return h


def uniform(key, step, index):
    """In [0, 1), with 24 bits: one Philox block serves four consecutive elements."""
    index = np.asarray(index, np.uint64)
    block = index >> np.uint64(2)
    words = philox(key, block, block >> np.uint64(32), np.uint64(step), np.uint64(step) >> np.uint64(32))
    bits = np.choose((index & np.uint64(3)).astype(np.int64), words)
    return (bits >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def normal(key, step, index):
    """Standard normal: Box and Muller on the first two words of a block."""
    index, step = np.asarray(index, np.uint64), np.asarray(step, np.uint64)
    u = [(x >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
         for x in philox(key, index, index >> np.uint64(32), step, step >> np.uint64(32))[:2]]
    return np.sqrt(np.float32(-2) * np.log(np.float32(1) - u[0])) * np.cos(np.float32(6.2831853) * u[1])


def normal_like(shape, name, seed, step):
    """Normal numbers of the node of that name, of two draws each."""
    draws = uniform(random_key(seed, fingerprint(name)), step, np.arange(2 * int(np.prod(shape)))).reshape(-1, 2)
    u, v = torch.tensor(draws).double().unbind(1)
    return ((-2 * torch.log(1 - u)).sqrt() * torch.cos(2 * torch.pi * v)).reshape(shape)


def dropout(x, rate, name, seed, step):
    """Element i of the whole batch is kept if its own draw is not below the rate; the key is the node's name."""
    if rate == 0:
        return x
    draws = uniform(random_key(seed, fingerprint(name)), step, np.arange(x.numel())).reshape(x.shape)
    return x * torch.from_numpy(draws >= np.float32(rate)) / (1 - rate)


def permuted_index(key, n, position):
    """The position-th element of the pseudo-random permutation of range(n) that `key` chooses."""
    half = 1
    while half < 31 and (1 << (2 * half)) < n:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = position >> half, position & mask
        for r in range(4):
            m = philox(key, right, 0, r, 0)
            left, right = right, left ^ (((int(m[1]) << 32) | int(m[0])) & mask)
        position = (left << half) | right
        if position < n:
            return position


class TextBatches:
    """Training batches of a text file, in the engine's order."""

    def __init__(self, path, validation_fraction, seed, batch, context):
        data = np.fromfile(path, np.uint8)
        self.train = data[: len(data) - math.floor(len(data) * validation_fraction)]
        self.seed, self.batch, self.context = seed, batch, context

    def __call__(self, step):
        samples = np.arange(step * self.batch, (step + 1) * self.batch, dtype=np.uint64)
        x = philox(self.seed, samples, samples >> np.uint64(32), 0, 1)
        offsets = ((x[1] << np.uint64(32)) | x[0]) % np.uint64(len(self.train) - self.context)
        windows = np.stack([self.train[int(o): int(o) + self.context + 1] for o in offsets]).astype(np.int64)
        return torch.from_numpy(windows[:, :-1]), torch.from_numpy(windows[:, 1:])


class LabelledTexts:
    """Training batches of (text, label), in the engine's order: inputs are (tokens, padding), tokens are bytes behind a
    first one. The last `validation_fraction` is left out."""

    def __init__(self, rows, validation_fraction, seed, batch, context, first_token):
        self.rows = rows[: len(rows) - math.floor(len(rows) * validation_fraction)]
        self.seed, self.batch, self.context, self.first_token = seed, batch, context, first_token

    def __call__(self, step):
        n, tokens = len(self.rows), np.zeros((self.batch, self.context), np.int64)
        padding, labels = np.ones((self.batch, self.context), bool), np.zeros(self.batch, np.int64)
        for i, sample in enumerate(range(step * self.batch, (step + 1) * self.batch)):
            text, labels[i] = self.rows[permuted_index(random_key(self.seed, sample // n), n, sample % n)]
            read = ([self.first_token] + list(text.encode()))[: self.context]
            tokens[i, : len(read)] = read
            padding[i, : len(read)] = False
        return (torch.from_numpy(tokens), torch.from_numpy(padding)), torch.from_numpy(labels)


class ImageBatches:
    """Training batches of IDX files, in the engine's order; `mean` and `std`: of pixels from 0 to 1, by channel."""

    def __init__(self, images, labels, seed, batch, mean=(0.5,), std=(0.5,)):
        raw = self.read(images)
        *rows, height, width = np.frombuffer(raw, ">u4", raw[3], 4)  # of channels or without
        self.images = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(rows[0], -1, height, width)
        self.labels = np.frombuffer(self.read(labels), np.uint8, offset=8)
        self.seed, self.batch = seed, batch
        mean, std = (np.array(x).reshape(1, -1, 1, 1) for x in (mean, std))
        self.scale, self.shift = (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)

    @staticmethod
    def read(path):
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            return file.read()

    def __call__(self, step):
        n = len(self.labels)
        rows = []
        for sample in range(step * self.batch, (step + 1) * self.batch):
            rows.append(permuted_index(random_key(self.seed, sample // n), n, sample % n))
        images = self.images[rows].astype(np.float32) * self.scale + self.shift
        return torch.from_numpy(images).double(), torch.from_numpy(self.labels[rows].astype(np.int64))


class MadeBatches:
    """Training batches that the engine makes: samples in a random order, their parts from numbered streams of random
    numbers."""

    (ORDER, CLASS_OF_SAMPLE, NOISE, PROTOTYPE, FIELD_VALUE,
     NUMBER, FIELD_WEIGHT, FIELD_FACTOR, NUMBER_WEIGHT, CLICK) = range(1, 11)

    def __init__(self, samples, seed, batch):
        self.samples, self.seed, self.batch = samples, seed, batch

    def key(self, stream):
        return random_key(self.seed, stream)

    def at(self, step):
        """The numbers of the samples of a step."""
        positions = range(step * self.batch, (step + 1) * self.batch)
        order = self.key(self.ORDER)
        return np.array([permuted_index(random_key(order, p // self.samples), self.samples, p % self.samples)
                         for p in positions], np.uint64)


class PrototypeBatches(MadeBatches):
    """Images that are their class' image under normal noise."""

    def __init__(self, classes, noise, samples, seed, batch, height=8, width=8):
        super().__init__(samples, seed, batch)
        self.classes, self.noise, self.shape = classes, np.float32(noise), (1, height, width)

    def __call__(self, step):
        samples, pixels = self.at(step), np.arange(np.prod(self.shape), dtype=np.uint64)
        words = philox(self.key(self.CLASS_OF_SAMPLE), samples, samples >> np.uint64(32), 0, 1)
        labels = ((words[1] << np.uint64(32)) | words[0]) % np.uint64(self.classes)
        prototypes = uniform(self.key(self.PROTOTYPE), 0, labels[:, None] * np.uint64(len(pixels)) + pixels)
        noise = normal(self.key(self.NOISE), samples[:, None], pixels)
        images = np.float32(2) * prototypes - np.float32(1) + self.noise * noise
        return torch.from_numpy(images.reshape(-1, *self.shape)).double(), torch.from_numpy(labels.astype(np.int64))


class ClickBatches(MadeBatches):
    """Ids of categorical fields, numbers, and whether there was a click; inputs are (ids, numbers)."""

    def __init__(self, fields, vocabulary, numbers, samples, seed, batch):
        super().__init__(samples, seed, batch)
        self.fields, self.vocabulary, self.numbers = fields, vocabulary, numbers

    def ids(self, samples):
        fields = np.arange(self.fields)
        begin, end = fields * self.vocabulary // self.fields, (fields + 1) * self.vocabulary // self.fields
        u = np.stack([uniform(self.key(self.FIELD_VALUE), int(s), fields) for s in samples]).astype(np.float64)
        return begin + (u * u * u * (end - begin)).astype(np.int64)

    def __call__(self, step):
        samples = self.at(step)
        ids = self.ids(samples)
        numbers = normal(self.key(self.NUMBER), samples[:, None], np.arange(self.numbers))
        weights = 2 * uniform(self.key(self.FIELD_WEIGHT), 0, ids) - 1
        factors = 2 * uniform(self.key(self.FIELD_FACTOR), 0, ids) - 1
        of_numbers = 2 * uniform(self.key(self.NUMBER_WEIGHT), 0, np.arange(self.numbers)) - 1
        logits = weights.sum(1) + 3 * (factors[:, 1:] * factors[:, :-1]).sum(1) + numbers @ of_numbers
        clicks = uniform(self.key(self.CLICK), 0, samples) < 1 / (1 + np.exp(-logits))
        return (torch.from_numpy(ids), torch.from_numpy(numbers).double()), torch.from_numpy(clicks.astype(np.int64))


def rms(x):
    return x.pow(2).mean().sqrt().item()
