"""save and load: round trips, the byte layout, damage, interrupted writers, other formats."""

import collections
import contextlib
import io
import json
import math
import os
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import quabla as qb

TREE = {
    "w": qb.array([[1.0, -2.5], [math.inf, 1e-310]]),
    "layers": [(qb.array(True), None), {3: qb.array([0.1, 0.2], dtype=qb.float32), "s": 'ä\n"\\'}],
    "plain": (1, -(10**30), True, False, 0.1, math.inf, -0.0, "", {}),
}


def written(tree):
    file = io.BytesIO()
    qb.save(file, tree)
    return file.getvalue()


def read(data):
    return qb.load(io.BytesIO(data))


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, qb.Tensor):
        return (a.dtype, a.shape, a.numpy().tobytes()) == (b.dtype, b.shape, b.numpy().tobytes())
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def test_a_tree_comes_back_as_it_was():
    assert same(read(written(TREE)), TREE)


@pytest.mark.parametrize("leaf", [None, True, 0, -5, 0.5, "x", qb.array(1.5), [], (), {}, {"b": 1, "a": 2}])
def test_a_leaf_alone_is_a_tree(leaf):
    assert same(read(written(leaf)), leaf)


def test_nan_keeps_its_place_and_arrays_their_bits():
    assert math.isnan(read(written(math.nan)))
    bits = np.array([0x7FF8000000000123], dtype=np.uint64).view(np.float64)
    assert read(written(qb.array(bits))).numpy().tobytes() == bits.tobytes()


def test_paths_and_files_hold_the_same_bytes(tmp_path):
    qb.save(tmp_path / "a.qb", TREE)
    qb.save(str(tmp_path / "b.qb"), TREE)
    assert (tmp_path / "a.qb").read_bytes() == (tmp_path / "b.qb").read_bytes() == written(TREE)
    assert same(qb.load(tmp_path / "a.qb"), TREE)


def parsed(data):
    size = struct.unpack_from("<Q", data, 8)[0]
    return json.loads(data[16 : 16 + size]), data[16 + size :]


def assembled(header, data=b""):
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"\x93QUABLA\n" + struct.pack("<Q", len(text)) + text + data


def test_the_layout_is_the_documented_one():
    data = written({"w": qb.array([1.0, 2.0]), "n": [3, 0.5]})
    assert data[:8] == bytes.fromhex("935155414 24C410A".replace(" ", ""))
    header, raw = parsed(data)
    assert {k: v for k, v in header.items() if k != "checksum"} == {
        "format": "quabla",
        "version": 1,
        "tree": {
            "type": "dict",
            "keys": ["w", "n"],
            "values": [
                {"type": "array", "dtype": "float64", "shape": [2], "offset": 0, "nbytes": 16},
                {
                    "type": "list",
                    "items": [{"type": "int", "value": 3}, {"type": "float", "value": "0x1.0000000000000p-1"}],
                },
            ],
        },
    }
    assert raw == struct.pack("<2d", 1.0, 2.0)
    blank = data.replace(header["checksum"].encode(), b"crc32:00000000", 1)
    assert header["checksum"] == f"crc32:{zlib.crc32(blank):08x}"


def test_a_file_without_checksum_and_with_unknown_keys_loads():
    node = {"type": "array", "dtype": "float32", "shape": [], "offset": 4, "nbytes": 4, "unit": "m"}
    data = assembled(
        {"format": "quabla", "version": 1, "made_by": "someone", "tree": node}, struct.pack("<2f", 0.0, 7.0)
    )
    assert read(data).item() == 7.0


def test_bytes_after_the_data_are_ignored():
    assert same(read(written(TREE) + b"more"), TREE)


def test_every_cut_and_every_flipped_bit_is_a_value_error():
    data = written(TREE)
    for i in range(len(data)):
        with pytest.raises(ValueError):
            read(data[:i])
        for bit in range(8):
            with pytest.raises(ValueError):
                read(data[:i] + bytes([data[i] ^ (1 << bit)]) + data[i + 1 :])


ARRAY = {"type": "array", "dtype": "float64", "shape": [2], "offset": 0, "nbytes": 16}


@pytest.mark.parametrize(
    "node",
    [
        {**ARRAY, "shape": [3]},
        {**ARRAY, "shape": [10**18, 10**18], "nbytes": 8 * 10**36},
        {**ARRAY, "shape": [2**40], "nbytes": 2**43},
        {**ARRAY, "shape": [0], "nbytes": 0},
        {**ARRAY, "shape": [-2]},
        {**ARRAY, "shape": [True, 2]},
        {**ARRAY, "shape": "2"},
        {**ARRAY, "shape": [1] * 50 + [2]},
        {**ARRAY, "offset": 8},
        {**ARRAY, "offset": -8},
        {**ARRAY, "offset": 0.0},
        {**ARRAY, "dtype": "float16"},
        {**ARRAY, "dtype": ["float64"]},
        {"type": "list", "items": [ARRAY] * 2},
        {"type": "array"},
        {"type": "list", "items": {}},
        {"type": "dict", "keys": ["a"], "values": []},
        {"type": "dict", "keys": ["a", "a"], "values": [{"type": "none"}] * 2},
        {"type": "dict", "keys": [True], "values": [{"type": "none"}]},
        {"type": "dict", "keys": [[1]], "values": [{"type": "none"}]},
        {"type": "int", "value": 1.0},
        {"type": "int", "value": True},
        {"type": "bool", "value": 1},
        {"type": "float", "value": "1e"},
        {"type": "float", "value": 1.0},
        {"type": "code", "value": "print(1)"},
        {"type": ["list"], "items": []},
        {"value": 1},
        None,
        [],
        7,
    ],
)
def test_a_malformed_node_is_a_value_error(node):
    with pytest.raises(ValueError):
        read(assembled({"format": "quabla", "version": 1, "tree": node}, bytes(16)))


@pytest.mark.parametrize(
    "header",
    [
        {"format": "other", "version": 1, "tree": {"type": "none"}},
        {"format": "quabla", "version": 2, "tree": {"type": "none"}},
        {"format": "quabla", "version": True, "tree": {"type": "none"}},
        {"format": "quabla", "version": 1},
        {"format": "quabla", "version": 1, "checksum": "crc32:00000000", "tree": {"type": "none"}},
        {"format": "quabla", "version": 1, "checksum": "md5:0", "tree": {"type": "none"}},
        {"format": "quabla", "version": 1, "checksum": 5, "tree": {"type": "none"}},
        [],
        "x",
    ],
)
def test_a_malformed_header_is_a_value_error(header):
    with pytest.raises(ValueError):
        read(assembled(header))


def test_other_bytes_are_value_errors():
    for data in (
        b"",
        b"\x93NUMPY",
        b"\x93QUABLA\n" + b"\xff" * 8,
        b"\x93QUABLA\n" + struct.pack("<Q", 2) + b"\xff\xfe",
    ):
        with pytest.raises(ValueError):
            read(data)


def test_very_deep_trees_are_value_errors():
    deep = b'{"format":"quabla","version":1,"tree":' + b'{"type":"list","items":[' * 100_000 + b"]}" * 100_000 + b"}"
    with pytest.raises(ValueError, match="deep"):
        read(b"\x93QUABLA\n" + struct.pack("<Q", len(deep)) + deep)
    inner = tree = []
    for _ in range(100_000):
        inner.append([])
        inner = inner[0]
    with pytest.raises(ValueError, match="deep"):
        written(tree)
    own = []
    own.append(own)
    with pytest.raises(ValueError, match="itself"):
        written(own)


def test_a_fuzzed_file_is_a_value_error_or_a_tree():
    """Random edits, without the checksum that would find them all."""
    rng, header, raw = random.Random(0), *parsed(written(TREE))
    del header["checksum"]
    data = assembled(header, raw)
    for _ in range(int(os.environ.get("QUABLA_FUZZ", 3000))):
        bad = bytearray(data)
        for _ in range(rng.randint(1, 6)):
            i = rng.randrange(len(bad))
            action = rng.randrange(3)
            if action == 0:
                bad[i] = rng.choice(b'0123456789-"[]{},:.eE\x00\xff ntf')
            elif action == 1:
                del bad[i : i + rng.randint(1, 9)]
            else:
                bad[i:i] = bytes(rng.choice(b"0123456789[]{},") for _ in range(rng.randint(1, 5)))
            if not bad:
                break
        with contextlib.suppress(ValueError):
            read(bytes(bad))


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (np.zeros(3), "ndarray"),
        ([np.float64(1.0)], "float64"),
        ({"k": qb.random.key(0)}, "Key"),
        ({True: 1}, "bool"),
        ({(1, 2): 1}, "tuple"),
        (b"bytes", "bytes"),
        ({1, 2}, "set"),
        (1j, "complex"),
        (collections.namedtuple("P", "a")(1), "P"),
        (collections.OrderedDict(a=1), "OrderedDict"),
    ],
)
def test_what_cannot_be_saved_is_named(tree, words, tmp_path):
    path = tmp_path / "kept.qb"
    qb.save(path, 1)
    with pytest.raises(TypeError, match=words):
        qb.save(path, tree)
    assert qb.load(path) == 1


# ---- the writer ----

KILLED = """
import os, sys
import quabla as qb

path, stage = sys.argv[1], int(sys.argv[2])
seen = 0


def dying(function):
    def call(*args, **kwargs):
        global seen
        seen += 1
        if seen == 2 * stage - 1:
            os._exit(9)
        out = function(*args, **kwargs)
        seen += 1
        if seen == 2 * stage:
            os._exit(9)
        return out

    return call


for name in ("open", "write", "fsync", "close", "replace"):
    setattr(os, name, dying(getattr(os, name)))
qb.save(path, {"w": qb.full((1000,), 2.0), "v": qb.ones((10,))})
print("saved")
"""


def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new(tmp_path):
    path, old, new, finished = tmp_path / "model.qb", 0, 0, False
    for stage in range(1, 30):
        qb.save(path, {"w": qb.full((1000,), 1.0)})
        run = subprocess.run([sys.executable, "-c", KILLED, path, str(stage)], capture_output=True, text=True)
        assert run.returncode in (0, 9), run.stderr
        value = qb.load(path)["w"][0].item()
        assert value in (1.0, 2.0)
        old, new = old + (value == 1.0), new + (value == 2.0)
        finished = run.stdout == "saved\n"
        if finished:
            break
    assert finished
    assert old >= 5
    assert new >= 2


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path, write, left = tmp_path / "model.qb", os.write, [50]
    qb.save(path, "old")

    def short(fd, data):
        if not left[0]:
            raise OSError(28, "No space left on device")
        n = write(fd, bytes(data)[: left[0]])
        left[0] -= n
        return n

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(OSError, match="space"):
        qb.save(path, [1.5] * 100)
    monkeypatch.undo()
    assert qb.load(path) == "old"
    assert os.listdir(tmp_path) == ["model.qb"]


@pytest.mark.parametrize("what", ["open", "fsync"])
def test_a_folder_that_cannot_be_flushed_is_no_error(tmp_path, monkeypatch, what):
    real = {"open": os.open, "fsync": os.fsync}[what]

    def refuse(file, *args):
        if os.path.isdir(f"/proc/self/fd/{file}" if what == "fsync" else file):
            raise OSError(22, "Invalid argument")
        return real(file, *args)

    monkeypatch.setattr(os, what, refuse)
    qb.save(tmp_path / "a.qb", 1)
    assert qb.load(tmp_path / "a.qb") == 1 and os.listdir(tmp_path) == ["a.qb"]


def test_a_file_that_takes_nothing_is_an_error():
    class Full:
        def write(self, data):
            return 0

    with pytest.raises(OSError, match="save: the file takes no more bytes"):
        qb.save(Full(), qb.ones((3,)))


def test_a_writer_goes_through_links_and_keeps_the_mode(tmp_path):
    qb.save(tmp_path / "real.qb", 1)
    os.chmod(tmp_path / "real.qb", 0o640)
    (tmp_path / "link.qb").symlink_to("real.qb")
    qb.save(tmp_path / "link.qb", 2)
    assert (tmp_path / "link.qb").is_symlink()
    assert qb.load(tmp_path / "real.qb") == 2
    assert (tmp_path / "real.qb").stat().st_mode & 0o777 == 0o640
    os.chmod(tmp_path / "real.qb", 0o666)
    before = os.umask(0o077)
    try:
        qb.save(tmp_path / "real.qb", 3)
    finally:
        os.umask(before)
    assert (tmp_path / "real.qb").stat().st_mode & 0o777 == 0o666


def test_a_missing_folder_or_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        qb.save(tmp_path / "no" / "a.qb", 1)
    assert error.value.filename == str(tmp_path / "no" / "a.qb")
    with pytest.raises(FileNotFoundError):
        qb.save("", 1)
    for name in ("a.qb", "a.npz", "a.safetensors"):
        with pytest.raises(FileNotFoundError):
            qb.load(tmp_path / name)


# ---- other formats ----


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays_travel_in_other_formats(tmp_path, suffix):
    tree = {"layers": [(qb.array([[1.0, 2.0]]), qb.array([0.5], dtype=qb.float32))], "on": qb.array([True, False])}
    path = tmp_path / f"model{suffix}"
    qb.save(path, tree)
    found = qb.load(path)
    assert same(
        dict(sorted(found.items())),
        {"layers/0/0": tree["layers"][0][0], "layers/0/1": tree["layers"][0][1], "on": tree["on"]},
    )
    with pytest.raises(TypeError, match="steps"):
        qb.save(path, {"steps": 1})
    with pytest.raises(ValueError, match="two leaves"):
        qb.save(path, {"a": {"b": qb.ones((1,))}, "a/b": qb.ones((1,))})
    assert len(qb.load(path)) == 3
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError):
        qb.load(path)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_leaves_may_have_any_name(tmp_path, suffix):
    tree = {
        name: qb.array(float(i)) for i, name in enumerate(("file", "args", "allow_pickle", "arr_0", "a.b", "d\xe9"))
    }
    qb.save(tmp_path / f"model{suffix.upper()}", tree)
    found = qb.load(tmp_path / f"model{suffix.upper()}")
    assert {k: v.item() for k, v in found.items()} == {k: v.item() for k, v in tree.items()}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_damage_in_other_formats_is_a_value_error_or_other_numbers(tmp_path, suffix):
    path, rng = tmp_path / f"model{suffix}", random.Random(1)
    qb.save(path, {"w": qb.array([1.0, 2.0]), "on": qb.array([True, False])})
    data = path.read_bytes()
    failed = 0
    for i in range(len(data)):
        for bad in (data[:i], data[:i] + bytes([data[i] ^ (1 << rng.randrange(8))]) + data[i + 1 :]):
            path.write_bytes(bad)
            try:
                assert isinstance(qb.load(path), dict)
            except ValueError as error:
                failed += 1
                assert str(error)
    assert failed > len(data)


def test_arrays_that_quabla_has_not_are_named(tmp_path):
    for i, array in enumerate((np.zeros(0), np.zeros(2, np.complex128), np.zeros(2, np.float16), np.array(["x"]))):
        np.savez(tmp_path / f"{i}.npz", a=array)
        with pytest.raises(ValueError, match=rf"'a' of .*{i}.npz"):
            qb.load(tmp_path / f"{i}.npz")
    np.savez(tmp_path / "object.npz", a=np.array([None], dtype=object))
    with pytest.raises(ValueError, match="pickle"):
        qb.load(tmp_path / "object.npz")
    np.savez(tmp_path / "big.npz", a=np.array([1.5, -2.0], dtype=">f8"), b=np.arange(3, dtype=np.int64))
    found = qb.load(tmp_path / "big.npz")
    assert (found["a"].tolist(), found["b"].tolist()) == ([1.5, -2.0], [0.0, 1.0, 2.0])


def test_files_that_are_open_are_written_whole(tmp_path):
    class Slow(io.RawIOBase):  # as an unbuffered file on a slow disk: a few bytes at a time
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, data):
            self.data += bytes(data[:7])
            return min(7, len(data))

    slow = Slow()
    qb.save(slow, TREE)
    assert slow.data == written(TREE)
    with open(tmp_path / "a.txt", "w") as file, pytest.raises(TypeError, match="'wb'"):
        qb.save(file, 1)
    with open(tmp_path / "a.txt") as file, pytest.raises(TypeError, match="'rb'"):
        qb.load(file)


def test_other_libraries_read_what_was_written(tmp_path):
    from safetensors.numpy import load_file

    qb.save(tmp_path / "a.npz", {"w": qb.array([1.0, 2.0])})
    qb.save(tmp_path / "a.safetensors", qb.array([1.0, 2.0]))
    assert np.load(tmp_path / "a.npz")["w"].tolist() == [1.0, 2.0]
    assert load_file(tmp_path / "a.safetensors")["array"].tolist() == [1.0, 2.0]
