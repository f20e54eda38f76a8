"""Random bits: seeded streams repeat, secure ones never do - not across threads, forks, copies or rekeying."""

import copy
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tensorveil.errors import InputError
from tensorveil.noise import NoiseSource, SecureSource, SeededSource, discrete_laplace
from tensorveil.noise import source as source_module


def test_a_seed_repeats_its_stream_and_seeds_differ() -> None:
    assert (SeededSource(7).uniform64(1000) == SeededSource(7).uniform64(1000)).all()
    assert not (SeededSource(7).uniform64(1000) == SeededSource(8).uniform64(1000)).any()
    assert not (SeededSource(1).uniform64(100) == SeededSource(-1).uniform64(100)).any()


def test_the_seeded_stream_never_changes() -> None:
    """Studies name their seeds, so a seed must mean the same in every release."""
    import hashlib

    key = hashlib.sha256(b"tensorveil noise 7").digest()
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(32))
    assert SeededSource(7).bytes(32) == stream
    assert SeededSource(7).uniform64(1)[0] == int.from_bytes(stream[:8], "little")


def test_the_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole = SeededSource(3).bytes(2_000_000)
    pieces, source = [], SeededSource(3)
    sizes = [0, 1, 7, 8, 15, 16, 17, 4096, 262_143, 262_144, 262_145, 524_289]
    pieces = [source.bytes(n) for n in sizes]
    total = sum(sizes)
    assert b"".join(pieces) == whole[:total]
    words = SeededSource(3).uniform64(250_000)
    assert words.astype("<u8").tobytes() == whole


def test_security_is_stated() -> None:
    assert SecureSource().secure is True
    assert SeededSource(1).secure is False
    assert isinstance(SecureSource(), NoiseSource)
    assert isinstance(SeededSource(0), NoiseSource)
    assert repr(SecureSource()) == "SecureSource()"
    assert repr(SeededSource(4)) == "SeededSource(4)"
    with pytest.raises(AttributeError):
        SeededSource(1).secure = True  # type: ignore[misc]


def test_secure_sources_differ() -> None:
    first, second = SecureSource(), SecureSource()
    assert not np.intersect1d(first.uniform64(1000), second.uniform64(1000)).size
    assert not np.intersect1d(first.uniform64(1000), first.uniform64(1000)).size
    assert len(first.bytes(33)) == 33
    assert first.bytes(0) == b""
    assert first.uniform64(0).shape == (0,)


def test_words_can_be_written_to() -> None:
    words = SecureSource().uniform64(3)
    words[0] = 1
    assert words.dtype == np.uint64
    assert words.flags.writeable


def test_a_source_is_neither_copied_nor_sent() -> None:
    """Whoever computes a lost task again would draw again, for one charge."""
    for source in (SecureSource(), SeededSource(1)):
        for take in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="draw again"):
                take(source)


def test_threads_share_a_source_without_sharing_bits() -> None:
    source = SecureSource()
    drawn: list[Any] = [None] * 4
    start = threading.Barrier(4)

    def work(i: Any) -> None:
        start.wait()
        drawn[i] = np.concatenate([source.uniform64(100) for _ in range(100)])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(np.unique(np.concatenate(drawn))) == 40_000


def test_threads_share_a_seeded_stream_without_losing_or_repeating_words() -> None:
    source = SeededSource(5)
    drawn: list[Any] = [None] * 4

    def work(i: Any) -> None:
        drawn[i] = np.concatenate([source.uniform64(50) for _ in range(50)])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (np.sort(np.concatenate(drawn)) == np.sort(SeededSource(5).uniform64(10_000))).all()


FORK = """
import os, sys
from tensorveil.noise import SecureSource
source = SecureSource()
source.uniform64(4)
def child(pipe):
    os.write(pipe, source.bytes(64))
    os._exit(0)
outs = []
for generation in range(2):
    read, write = os.pipe()
    if os.fork() == 0:
        child(write)
    os.wait()
    outs.append(os.read(read, 64))
# A grandchild whose parent never drew.
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        child(write)
    os.wait()
    os._exit(0)
os.wait()
outs.append(os.read(read, 64))
outs.append(source.bytes(64))
blocks = {out[i:i + 16] for out in outs for i in range(0, 64, 16)}
print(len(outs), len(blocks))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
def test_children_draw_other_bits_than_their_parents() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4", "16"]


def test_a_fork_is_noticed_even_if_the_process_number_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SecureSource()
    source.uniform64(1)
    before = source._local.held
    source.uniform64(1)
    assert source._local.held is before
    monkeypatch.setattr(source_module._Forks, "count", source_module._Forks.count + 1)
    source.uniform64(1)
    assert source._local.held is not before


def test_keys_are_replaced_after_a_bounded_amount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "REKEY_BYTES", 1024)
    source, keys = SecureSource(), set()
    for _ in range(10):
        source.bytes(512)
        keys.add(id(source._local.held))
    held = source._local.held
    assert len(source.bytes(10_000)) == 10_000
    assert source._local.held is not held
    assert source._local.held.stream.drawn <= 1024
    words = source.uniform64(5000)
    assert len(np.unique(words)) == 5000


def test_seeded_draws_repeat() -> None:
    first, second = (discrete_laplace(2.0**39, 5000, SeededSource(2)) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize("seed", [1.5, "1", None, True])
def test_seeds_are_integers(seed: int) -> None:
    with pytest.raises(InputError, match="seed must be an integer"):
        SeededSource(seed)


def test_negative_lengths_are_refused() -> None:
    for source in (SecureSource(), SeededSource(1)):
        with pytest.raises(InputError, match="n must be at least 0"):
            source.uniform64(-1)
        with pytest.raises(InputError, match="n must be at least 0"):
            source.bytes(-1)
