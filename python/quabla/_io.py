"""save and load: a tree of arrays and plain values in one file.

Layout: 8 bytes of magic, the header's size N as a little-endian 64-bit number, N bytes of JSON, then the arrays as raw C-order
little-endian data. The JSON says format, version, a checksum and the tree; an array's node says where its data lies. The checksum
is a CRC-32 of the whole file up to the end of the data, with its own digits as zeros; CRC-32 finds every error within 32 bits. A
reader ignores keys that it does not know, so files without a checksum load too.

A file is written beside its place under another name, flushed to the disk and then renamed, so that a crash or a full disk leaves
the old file as it was. Nothing of a file is run or trusted: sizes are compared with what the file holds before memory is taken.
"""

import errno
import io
import os
import zlib

from . import _core
from ._arguments import path_of
from ._core import tree as _tree

__all__ = ["load", "save"]

_MAGIC = b"\x93QUABLA\n"
_NAMES = {_core.float32: ("float32", "f", 4), _core.float64: ("float64", "d", 8), _core.bool_: ("bool", "?", 1)}
_DTYPES = {name: (dtype, code, size) for dtype, (name, code, size) in _NAMES.items()}


# ---- writing ----


def _encode(x, arrays, offset):
    """The header's node of x. Arrays are appended to `arrays`; offset is a list with the end of their data so far."""
    kind = type(x)
    if x is None:
        return {"type": "none"}
    if kind is bool or kind is int or kind is str:
        return {"type": kind.__name__, "value": x}
    if kind is float:
        return {"type": "float", "value": x.hex()}
    if kind is _core.Tensor:
        name, _, size = _NAMES[x.dtype]
        node = {"type": "array", "dtype": name, "shape": list(x.shape), "offset": offset[0], "nbytes": x.size * size}
        arrays.append(x)
        offset[0] += node["nbytes"]
        return node
    if kind is list or kind is tuple:
        return {"type": kind.__name__, "items": [_encode(v, arrays, offset) for v in x]}
    if kind is dict:
        for k in x:
            if type(k) is not str and type(k) is not int:
                raise TypeError(f"save: a dict key is a str or an int, not {type(k).__name__} ({k!r})")
        return {"type": "dict", "keys": list(x), "values": [_encode(v, arrays, offset) for v in x.values()]}
    raise TypeError(
        f"save: a {kind.__name__} cannot be saved; a tree holds Tensors, None, bool, int, float and str in dicts, lists "
        "and tuples (qb.asarray makes a Tensor of a NumPy array)"
    )


def _parts(tree):
    """The bytes of a file as a list of buffers."""
    import json  # not at the top: `import quabla` stays fast

    arrays = []
    try:
        node = _encode(tree, arrays, [0])
        blank = {"format": "quabla", "version": 1, "checksum": "crc32:00000000", "tree": node}
        header = json.dumps(blank, separators=(",", ":")).encode("ascii")
    except RecursionError:
        raise ValueError("save: the tree is nested too deeply, or holds itself") from None
    parts = [_MAGIC + len(header).to_bytes(8, "little"), header, *(memoryview(a).cast("B") for a in arrays)]
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    parts[1] = header.replace(b"crc32:00000000", b"crc32:%08x" % crc, 1)
    return parts


def _write_all(write, data):
    """Unbuffered files may take less than they are given; a writer that does not count has taken all."""
    data = memoryview(data)
    while len(data):
        taken = write(data)
        if taken == 0:
            raise OSError("save: the file takes no more bytes")
        data = data[len(data) if taken is None else taken :]


def _write_file(path, parts):
    """The parts as the new content of path, which holds either its old content or all of the new at any time."""
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    given, path = path, os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe has no content to keep
        with open(path, "wb") as file:
            for part in parts:
                file.write(part)
        return
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}.part")
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else None
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:
        error.filename = given  # the user knows nothing of the draft
        raise
    try:
        try:
            if mode is not None:
                os.fchmod(fd, mode)  # whatever the umask says
            for part in parts:
                _write_all(lambda data: os.write(fd, data), part)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise
    try:  # the rename itself reaches the disk, where folders can be opened and flushed: not everywhere, and the file is there
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


def write(path, tree):
    """The own format, whatever the path ends in."""
    _write_file(path, _parts(tree))


def save(file, tree):
    """Write a tree to a file: Tensors, None, bool, int, float and str in dicts (keys str or int), lists and tuples.

    file: a path, or a file open for writing bytes. A path's old content stays until the new one is complete on the disk.
    A path that ends in .npz or .safetensors is written in that format, by NumPy or safetensors, with the names of the leaves
    their paths in the tree ("layers/0/w"); then every leaf must be an array.
    Raises TypeError for anything else in the tree, and ValueError where it is nested too deeply.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.qb")
    >>> qb.save(path, {"w": qb.array([1.0, 2.0]), "steps": 10})
    >>> qb.load(path)
    {'w': Tensor([1., 2.], dtype=float64), 'steps': 10}
    """
    if hasattr(file, "write"):
        if isinstance(file, io.TextIOBase):
            raise TypeError("save: the file is open for writing text; open it with mode 'wb'")
        for part in _parts(tree):
            _write_all(file.write, part)
        return
    path = path_of("save", file)
    foreign = _foreign(path)
    if foreign:
        _write_file(path, [foreign[0](_named(tree))])
    else:
        write(path, tree)


# ---- reading ----


def _fail(why):
    raise ValueError(f"load: {why}")


def _known(node, *keys):
    """The values of a node's keys; a node that lacks one is malformed."""
    if not isinstance(node, dict) or any(k not in node for k in keys):
        _fail("a node of the header is malformed")
    return [node[k] for k in keys]


def _count(value):
    return type(value) is int and 0 <= value < 2**63


class _Reader:
    """Builds the tree from its nodes; `left` is the number of data bytes that no array has taken yet."""

    def __init__(self, data):
        self.data, self.left, self.end = data, len(data), 0

    def array(self, node):
        name, shape, offset, nbytes = _known(node, "dtype", "shape", "offset", "nbytes")
        if not isinstance(name, str) or name not in _DTYPES:
            _fail(f"unknown dtype {name!r}")
        if (
            not isinstance(shape, list)
            or not all(_count(d) and d > 0 for d in shape)
            or not _count(offset)
            or not _count(nbytes)
        ):
            _fail("an array's shape or place is malformed")
        dtype, code, size = _DTYPES[name]
        for d in shape:
            size *= d
        if size != nbytes:
            _fail(f"an array of shape {shape} and dtype {name} has {size} bytes, not {nbytes}")
        if offset + nbytes > len(self.data) or nbytes > self.left:
            _fail("the file ends before its data, or two arrays share bytes")
        self.left -= nbytes
        self.end = max(self.end, offset + nbytes)
        raw = self.data[offset : offset + nbytes]
        if code == "?" and not set(raw) <= {0, 1}:
            _fail("a bool array holds other bytes than 0 and 1")
        return _core.reshape(_core.array(raw.cast(code), dtype=dtype), shape)

    def tree(self, node):
        (kind,) = _known(node, "type")
        if kind == "none":
            return None
        if kind == "array":
            return self.array(node)
        if kind in ("list", "tuple"):
            (items,) = _known(node, "items")
            if not isinstance(items, list):
                _fail(f"the items of a {kind} are malformed")
            items = [self.tree(v) for v in items]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            keys, values = _known(node, "keys", "values")
            if not isinstance(keys, list) or not isinstance(values, list) or len(keys) != len(values):
                _fail("a dict is malformed")
            if any(type(k) is not str and type(k) is not int for k in keys) or len(set(keys)) != len(keys):
                _fail("a dict has keys that are not str or int, or one of them twice")
            return {k: self.tree(v) for k, v in zip(keys, values)}
        return self.scalar(kind, node)

    def scalar(self, kind, node):
        (value,) = _known(node, "value")
        if kind == "float" and isinstance(value, str) and float.fromhex(value).hex() == value:
            return float.fromhex(value)
        if kind in ("bool", "int", "str") and type(value).__name__ == kind:
            return value
        return _fail(f"a value of type {kind!r} is malformed")


def _size(data):
    """The header's size."""
    return int.from_bytes(data[8:16], "little")


def _check(header, data, end):
    """The checksum of the header, where it has one, against magic, size, header and `end` bytes of data."""
    named = header.get("checksum")
    if named is None:
        # A damaged key must not turn the check off.
        if any(isinstance(v, str) and v.startswith("crc32:") for v in header.values()):
            _fail("the file is damaged: its checksum has lost its name")
        return
    if not isinstance(named, str) or not named.startswith("crc32:"):
        _fail(f"the file is damaged, or has an unknown checksum {named!r}")
    size = _size(data)
    text = bytes(data[16 : 16 + size])
    crc = zlib.crc32(data[:16])
    crc = zlib.crc32(text.replace(named.encode("ascii"), b"crc32:00000000", 1), crc)
    crc = zlib.crc32(data[16 + size : 16 + size + end], crc)
    if f"crc32:{crc:08x}" != named:
        _fail("the file is damaged: its checksum does not fit")


def _read(data):
    import json

    data = memoryview(data).cast("B")
    if len(data) < 16 or data[:8] != _MAGIC:
        _fail("this is not a file written by qb.save, or it is cut short")
    size = _size(data)
    if size > len(data) - 16:
        _fail("the file is cut short within its header")
    try:
        header = json.loads(bytes(data[16 : 16 + size]).decode("ascii"))
        form, version, node = _known(header, "format", "version", "tree")
        if form != "quabla" or version != 1 or type(version) is not int:
            _fail(f"format {form!r} version {version!r}; this reader knows quabla version 1")
        reader = _Reader(data[16 + size :])
        tree = reader.tree(node)
        _check(header, data, reader.end)
    except RecursionError:
        raise ValueError("load: the header is nested too deeply") from None
    except (UnicodeDecodeError, OverflowError) as error:
        raise ValueError(f"load: the header is malformed: {error}") from None
    return tree


def read(path):
    """The own format, whatever the path ends in."""
    with open(path, "rb") as file:
        return _read(file.read())


def load(file):
    """The tree that qb.save wrote.

    file: a path, or a file open for reading bytes. A path that ends in .npz or .safetensors gives a dict of its arrays by name.
    Raises ValueError for a file that is cut, damaged or of another kind. Loading runs nothing that the file holds.

    >>> import io
    >>> file = io.BytesIO()
    >>> qb.save(file, [1, (2.5, None)])
    >>> qb.load(io.BytesIO(file.getvalue()))
    [1, (2.5, None)]
    """
    if hasattr(file, "read"):
        data = file.read()
        if isinstance(data, str):
            raise TypeError("load: the file is open for reading text; open it with mode 'rb'")
        return _read(data)
    path = path_of("load", file)
    foreign = _foreign(path)
    return foreign[1](path) if foreign else read(path)


# ---- other formats, by their own libraries ----


def _named(tree):
    """{"layers/0/w": NumPy array} for the leaves of a tree."""
    out = {}
    for path, leaf in _tree.flatten_with_path(tree)[0]:
        name = "/".join(str(p) for p in path) or "array"
        if type(leaf) is not _core.Tensor:
            raise TypeError(f"save: {name} is a {type(leaf).__name__}; .npz and .safetensors hold arrays alone")
        if name in out:
            raise ValueError(f"save: two leaves are called {name!r}")
        out[name] = leaf.numpy()
    return out


def _tensors(arrays, path):
    out = {}
    for name in arrays:
        x = arrays[name]
        if not x.dtype.isnative:
            x = x.astype(x.dtype.newbyteorder("="))
        try:
            out[name] = _core.array(x)
        except (TypeError, ValueError) as error:
            raise ValueError(f"load: '{name}' of {path}: {error}") from None
    return out


def _save_npz(arrays):
    import zipfile

    from numpy.lib import format as npy

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as parts:  # numpy.savez has parameters of its own, which no leaf could be called
        for name, x in arrays.items():
            with parts.open(name + ".npy", "w", force_zip64=True) as part:
                npy.write_array(part, x, allow_pickle=False)
    return file.getvalue()


def _load_npz(path):
    import zipfile

    import numpy

    with open(path, "rb") as file:
        data = io.BytesIO(file.read())
    try:
        with numpy.load(data, allow_pickle=False) as arrays:
            return _tensors(arrays, path)
    except (EOFError, OSError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"load: {path} is no .npz file, or it is damaged: {error}") from None


def _save_safetensors(arrays):
    from safetensors.numpy import save as encode

    return encode(arrays)


def _load_safetensors(path):
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return _tensors(load_file(path), path)
    except (SafetensorError, KeyError) as error:  # KeyError: a dtype that NumPy does not have
        raise ValueError(f"load: {path} is no .safetensors file, or it is damaged: {error}") from None


def _foreign(path):
    """(writer, reader) of another format, by the end of the path; None for the own one."""
    return _FOREIGN.get(os.path.splitext(path)[1].lower())


_FOREIGN = {".npz": (_save_npz, _load_npz), ".safetensors": (_save_safetensors, _load_safetensors)}
