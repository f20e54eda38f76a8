"""What homomorphic encryption of federated sums would cost, beside the masks that secure sums use.

    pip install tenseal                     # not a dependency of tensorveil: a temporary environment will do
    python -m benchmarks.homomorphic        # a minute on one core

A million integers, as a round of a federation sums them, from several clients: CPU seconds to encrypt (or mask), to add
and to decrypt (or unmask), and bytes on the wire. BFV (Brakerski; Fan and Vercauteren 2012) at 128 bits, packed, by
TenSEAL on one thread: exact integers modulo a prime. Results go to benchmarks/results/homomorphic.json;
docs/explanation/homomorphic.md reads them.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from tensorveil.federated.secure import masking, masks

RESULTS = Path(__file__).parent / "results"
INTEGERS, CLIENTS, ROUNDS = 1_000_000, 3, 1
# Ring dimension, plaintext prime (1 modulo twice the dimension), and how many integers are encrypted to time it.
RINGS = ((4096, 1_032_193, 1_000_000), (8192, 1_099_511_480_321, 1_000_000))


def clock(work):
    """Return what the work gives, and its CPU seconds."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def is_prime(number):
    return number > 1 and all(pow(base, number - 1, number) == 1 for base in (2, 3, 5, 7, 11, 13))


def plain_prime(dimension, start):
    """Return the largest prime up to ``start`` that is 1 modulo twice the dimension."""
    number = start - (start - 1) % (2 * dimension)
    while not is_prime(number):
        number -= 2 * dimension
    return number


def encrypted(dimension, start, count):
    """Sum vectors of integers under one key that the clients share and the server does not have."""
    import tenseal as ts

    prime = plain_prime(dimension, start)
    context = ts.context(ts.SCHEME_TYPE.BFV, poly_modulus_degree=dimension, plain_modulus=prime, n_threads=1)
    server = ts.context_from(context.serialize(save_secret_key=False))
    rng = np.random.default_rng(0)
    most = (prime - 1) // 2 // CLIENTS
    vectors = [rng.integers(-most, most + 1, count) for _ in range(CLIENTS)]
    cuts = range(0, count, dimension)

    def encrypt(vector):
        return [ts.bfv_vector(context, vector[k : k + dimension].tolist()).serialize() for k in cuts]

    sent, seconds = [], []
    for vector in vectors:
        message, took = clock(lambda vector=vector: encrypt(vector))
        sent.append(message)
        seconds.append(took)

    def add():
        out = []
        for parts in zip(*sent, strict=True):
            total = ts.bfv_vector_from(server, parts[0])
            for part in parts[1:]:
                total += ts.bfv_vector_from(server, part)
            out.append(total.serialize())
        return out

    total, adding = clock(add)
    found, decrypting = clock(lambda: np.concatenate([ts.bfv_vector_from(context, part).decrypt() for part in total]))
    exact = bool(np.array_equal(found, np.sum(vectors, axis=0)))
    size = sum(len(part) for part in sent[0])
    return {
        "scheme": f"BFV, ring {dimension}",
        "bits of the total": prime.bit_length() - 1,
        "exact": exact,
        "client, s": float(np.mean(seconds)),
        "server adds, s": adding,
        "decrypt, s": decrypting,
        "bytes sent by a client": size,
        "bytes per integer": size / count,
        "keys, bytes": len(context.serialize(save_secret_key=True)),
    }


def masked(count):
    """Sum vectors modulo 2^64 behind pairwise and own masks, as a secure round does."""
    seeds = [bytes([k]) * 32 for k in range(CLIENTS)]
    published = [masking.publish_keys(seed, "run", ROUNDS).tobytes() for seed in seeds]
    rng = np.random.default_rng(0)
    vectors = [rng.integers(-(2**40), 2**40, count) for _ in range(CLIENTS)]
    sent, seconds = [], []
    for k, vector in enumerate(vectors):
        message, took = clock(lambda k=k, vector=vector: masking.mask_vector(vector, seeds[k], k, published, "run", 0))
        sent.append(np.asarray(message))
        seconds.append(took)

    def unmask():
        total = np.sum([m.view(np.uint64) for m in sent], axis=0, dtype=np.uint64)
        for seed in seeds:
            total -= masks.expand_mask(masking.derive_self_seed(seed, "run", 0), count)
        return total.view(np.int64)

    found, adding = clock(unmask)
    return {
        "scheme": "masks (what `secure` does)",
        "bits of the total": 64,
        "exact": bool(np.array_equal(found, np.sum(vectors, axis=0))),
        "client, s": float(np.mean(seconds)),
        "server adds, s": adding,
        "decrypt, s": 0.0,
        "bytes sent by a client": sent[0].nbytes,
        "bytes per integer": sent[0].nbytes / count,
        "keys, bytes": len(published[0]),
    }


def main():
    os.environ["OMP_NUM_THREADS"] = "1"
    kept = [masked(INTEGERS)]
    kept += [encrypted(*ring) for ring in RINGS]
    for row in kept:
        print(row, flush=True)
    RESULTS.mkdir(exist_ok=True)
    content = {"integers": INTEGERS, "clients": CLIENTS, "rows": kept}
    (RESULTS / "homomorphic.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
