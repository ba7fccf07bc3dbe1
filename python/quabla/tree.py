"""Pytrees: nested containers around leaves, which every transform takes and returns.

Containers are dict (by sorted keys), list, tuple, None (which holds nothing), every NamedTuple class, and classes made known here.
Only these exact classes: an OrderedDict or another subclass is a leaf. A path is a tuple of keys, field names and positions.
"""

from . import _core

TreeDef = _core.tree.TreeDef
flatten = _core.tree.flatten
flatten_with_path = _core.tree.flatten_with_path
leaves = _core.tree.leaves
map = _core.tree.map
structure = _core.tree.structure
unflatten = _core.tree.unflatten

__all__ = [
    "TreeDef",
    "flatten",
    "flatten_with_path",
    "leaves",
    "map",
    "register",
    "register_dataclass",
    "structure",
    "unflatten",
]


def _restore(tree):
    """The structure of a pickled tree."""
    return structure(tree)


def register(cls, flatten_fn, unflatten_fn):
    """Make cls a container. Returns cls.

    flatten_fn(x) gives (children, aux): children are a sequence of subtrees; aux is hashable, and two objects have the same structure
    when theirs are equal. unflatten_fn(aux, children) makes an object again; during a transform children may be anything, so it
    should not check them. Traces are kept per aux.

    Raises ValueError for a class that is a container already, TypeError where cls is no class.

    >>> class Pair:
    ...     def __init__(self, x, y, tag):
    ...         self.x, self.y, self.tag = x, y, tag
    >>> Pair = qb.tree.register(Pair, lambda p: ((p.x, p.y), p.tag), lambda tag, c: Pair(*c, tag))
    >>> qb.tree.structure(Pair(1.0, 2.0, "k"))
    TreeDef(Pair(*, *, aux='k'))
    """
    return _core._register(cls, flatten_fn, unflatten_fn)


def _names(what, names):
    if isinstance(names, str):
        names = (names,)
    names = tuple(names)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"register_dataclass: {what} are names of fields, not {names!r}")
    return names


def register_dataclass(cls=None, data_fields=None, meta_fields=()):
    """Make a dataclass, or any class built by cls(**fields), a container. Returns cls; with keywords only, a decorator.

    data_fields name the subtrees, in order; None: every field of the dataclass that __init__ takes and that is not in meta_fields.
    meta_fields name what belongs to the structure: hashable values, of which each has traces of its own. Frozen dataclasses work.

    Raises ValueError for a class that is a container already, for unknown or repeated fields and for fields that __init__ needs and
    neither list names; TypeError for a class that is no dataclass without data_fields.

    >>> import dataclasses
    >>> @qb.tree.register_dataclass(meta_fields=("order",))
    ... @dataclasses.dataclass(frozen=True)
    ... class Model:
    ...     w: object
    ...     order: int = 1
    >>> qb.tree.structure(Model(qb.ones((2,)), 3))
    TreeDef(Model(w=*, aux=(3,)))
    """
    meta = _names("meta_fields", meta_fields)
    if cls is None:
        return lambda c: register_dataclass(c, data_fields, meta)
    if not isinstance(cls, type):
        raise TypeError(f"register_dataclass takes a class, not {cls!r}")
    import dataclasses  # by now the caller has; the module takes half as long to import as all of this package

    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else None
    if data_fields is None and fields is None:
        raise TypeError(f"register_dataclass: {cls.__name__} is no dataclass; name its data_fields")
    data = (
        tuple(f.name for f in fields if f.init and f.name not in meta)
        if data_fields is None
        else _names("data_fields", data_fields)
    )
    if len(set(data + meta)) != len(data + meta):
        raise ValueError(f"register_dataclass: a field of {cls.__name__} is named twice in {data + meta}")
    if fields is not None:
        unknown = set(data + meta) - {f.name for f in fields if f.init}
        missing = [
            f.name
            for f in fields
            if f.init and f.name not in data + meta and f.default is f.default_factory is dataclasses.MISSING
        ]
        if unknown:
            raise ValueError(f"register_dataclass: {cls.__name__}.__init__ takes no field {sorted(unknown)[0]!r}")
        if missing:
            raise ValueError(
                f"register_dataclass: field {missing[0]!r} of {cls.__name__} is in neither data_fields nor meta_fields"
            )

    def take(x):
        return tuple(getattr(x, name) for name in data), tuple(getattr(x, name) for name in meta)

    def build(aux, children):
        return cls(**dict(zip(data, children)), **dict(zip(meta, aux)))

    return _core._register(cls, take, build, data)
