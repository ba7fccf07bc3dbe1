"""Pytrees: dicts by sorted keys, lists, tuples, NamedTuples, None and registered classes."""

import collections
import copy
import dataclasses
import pickle
from typing import NamedTuple

import pytest
import quabla as qb

tree = qb.tree


class P(NamedTuple):
    a: object
    b: object


class Pair:
    def __init__(self, x, y, tag):
        self.x, self.y, self.tag = x, y, tag


tree.register(Pair, lambda p: ((p.x, p.y), p.tag), lambda tag, c: Pair(*c, tag))


class Named:
    def __init__(self, w, aux):
        self.w, self.aux = w, aux


tree.register_dataclass(Named, ("w",), ("aux",))

TREES = [1, None, (), [], {}, (1, [2, {"b": 3, "a": (4, None)}]), P(1, [2, 3]), {2: 1, 1: [P({}, 5)]}, [[[1]], ((2,),)]]


@pytest.mark.parametrize("t", TREES, ids=repr)
def test_flatten_and_unflatten_are_inverse(t):
    leaves, treedef = tree.flatten(t)
    assert tree.unflatten(treedef, leaves) == treedef.unflatten(leaves) == t
    assert tree.leaves(t) == leaves
    assert tree.structure(t) == treedef
    assert hash(tree.structure(t)) == hash(treedef)
    assert treedef.num_leaves == len(leaves)


def test_dicts_go_by_sorted_keys():
    assert tree.leaves({"b": 1, "a": 2}) == [2, 1]
    assert tree.structure({"b": 1, "a": 2}) == tree.structure({"a": 3, "b": 4})
    with pytest.raises(TypeError, match="sortable"):
        tree.flatten({1: 0, "a": 0})


@pytest.mark.parametrize(
    "t, text",
    [
        ({"a": [1, None], "b": 2}, "TreeDef({'a': [*, None], 'b': *})"),
        (P(1, [2]), "TreeDef(P(a=*, b=[*]))"),
        (Pair(1, 2, "k"), "TreeDef(Pair(*, *, aux='k'))"),
        (Named(1, 2), "TreeDef(Named(w=*, aux=(2,)))"),
        ((1,), "TreeDef((*,))"),
        ((), "TreeDef(())"),
        (1, "TreeDef(*)"),
    ],
)
def test_structures_print(t, text):
    assert repr(tree.structure(t)) == text


def test_structures_differ_by_class_keys_and_aux():
    different = [
        (1, 2),
        [1, 2],
        P(1, 2),
        {"a": 1, "b": 2},
        {"a": 1, "c": 2},
        Pair(1, 2, "k"),
        Pair(1, 2, "l"),
        (1, (2,)),
        None,
    ]
    defs = [tree.structure(t) for t in different]
    assert all((a == b) == (i == j) for i, a in enumerate(defs) for j, b in enumerate(defs))


def test_map_takes_several_trees():
    assert tree.map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]}) == {"a": 11, "b": [22]}
    assert tree.map(lambda x: x, None) is None
    with pytest.raises(ValueError, match="structure"):
        tree.map(lambda x, y: x, [1], (1,))
    with pytest.raises(ZeroDivisionError):
        tree.map(lambda x: 1 / 0, [1])


def test_paths_are_keys_fields_and_positions():
    t = {"p": [1, P(2, 3)], "q": (Named(4, 0),)}
    pairs, treedef = tree.flatten_with_path(t)
    assert [path for path, _ in pairs] == [("p", 0), ("p", 1, "a"), ("p", 1, "b"), ("q", 0, "w")]
    assert [leaf for _, leaf in pairs] == [1, 2, 3, 4]
    assert treedef == tree.structure(t)


def test_subclasses_and_unknown_classes_are_leaves():
    for leaf in (collections.OrderedDict(a=1), type("L", (list,), {})([1]), {1, 2}, object()):
        assert tree.leaves([leaf])[0] is leaf
        with pytest.raises(TypeError, match="argument 0"):
            qb.jit(lambda x: x)(leaf)


def test_a_class_is_registered_once():
    with pytest.raises(ValueError, match="already"):
        tree.register(Pair, lambda p: ((), None), lambda a, c: None)
    with pytest.raises(ValueError, match="already"):
        tree.register(dict, lambda p: ((), None), lambda a, c: None)


def test_registered_classes_pass_through_transforms():
    f = qb.jit(lambda p: Pair(p.x + p.y, p.y, p.tag))
    out = f(Pair(qb.array(1.0), qb.array(2.0), "k"))
    assert (out.x.item(), out.y.item(), out.tag) == (3.0, 2.0, "k")
    g = qb.grad(lambda p: p.x * p.y * (2 if p.tag == "k" else 3))
    assert g(Pair(qb.array(1.0), qb.array(2.0), "k")).x.item() == 4.0
    assert g(Pair(qb.array(1.0), qb.array(2.0), "l")).x.item() == 6.0


def test_wrong_leaf_counts_and_endless_trees():
    with pytest.raises(ValueError, match="1 leaves for a tree with 2"):
        tree.structure([1, 2]).unflatten([1])
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        tree.flatten(loop)


def test_registered_dataclasses():
    @tree.register_dataclass(meta_fields=("order",))
    @dataclasses.dataclass(frozen=True)
    class Model:
        w: object
        b: object = 0.0
        order: int = 1
        made: list = dataclasses.field(default_factory=list, init=False, compare=False)

    m = Model(qb.array([1.0, 2.0]), qb.array(5.0), 3)
    assert repr(tree.structure(m)) == "TreeDef(Model(w=*, b=*, aux=(3,)))"
    assert [path for path, _ in tree.flatten_with_path(m)[0]] == [("w",), ("b",)]
    n = 0

    def f(m):
        nonlocal n
        n += 1
        return qb.sum(m.w**m.order) + m.b

    g = qb.grad(f)(m)
    assert (type(g), g.w.tolist(), g.b.item(), g.order) == (Model, [3.0, 12.0], 1.0, 3)
    qb.grad(f)(Model(qb.array([3.0, 2.0]), qb.array(5.0), 3))
    assert n == 1
    assert qb.grad(f)(Model(m.w, m.b, 2)).w.tolist() == [2.0, 4.0]
    assert n == 2  # meta fields are part of every cache key
    assert qb.vmap(lambda m: m.w * m.order, in_axes=(Model(0, None, 3),))(m).tolist() == [3.0, 6.0]
    with pytest.raises(ValueError, match="'b' has"):
        qb.vmap(lambda m: m.w)(Model(qb.ones((2,)), qb.ones((3,)), 3))
    out = qb.jit(lambda m: Model(m.w * 2, None, "text"))(m)
    assert (out.w.tolist(), out.b, out.order) == ([2.0, 4.0], None, "text")


def test_a_dataclass_with_two_fields_and_no_meta_prints_no_aux():
    @tree.register_dataclass
    @dataclasses.dataclass
    class Point:
        x: object
        y: object

    assert repr(tree.structure([Point(1, {"a": 2})])) == "TreeDef([Point(x=*, y={'a': *})])"


def test_what_cannot_be_registered():
    @dataclasses.dataclass
    class D:
        a: object
        b: object
        c: object = dataclasses.field(default=1, init=False)

    class Plain:
        pass

    for args, kind, match in [
        ((D, ("a",)), ValueError, "'b' of D is in neither"),
        ((D, ("a", "b", "z")), ValueError, "no field 'z'"),
        ((D, None, ("c",)), ValueError, "no field 'c'"),
        ((D, ("a", "b"), ("b",)), ValueError, "twice"),
        ((Plain,), TypeError, "Plain is no dataclass"),
        ((D, (1, "b")), TypeError, "names of fields"),
        ((3,), TypeError, "takes a class"),
    ]:
        with pytest.raises(kind, match=match):
            tree.register_dataclass(*args)
    tree.register_dataclass(D, ("a", "b"))
    with pytest.raises(ValueError, match="already"):
        tree.register_dataclass(D)
    with pytest.raises(TypeError, match="a class and two functions"):
        tree.register(D(1, 2), lambda x: ((), None), lambda a, c: None)


def test_the_functions_of_a_registered_class_are_checked():
    class Bad:
        pass

    tree.register(Bad, lambda b: 3, lambda aux, c: Bad())
    with pytest.raises(TypeError, match=r"must return \(children, aux\)"):
        tree.flatten(Bad())

    class Raises:
        pass

    def no(*_):
        raise KeyError("mine")

    tree.register(Raises, no, no)
    with pytest.raises(KeyError, match="mine"):
        qb.jit(lambda x: x)(Raises())


def test_functions_take_their_parameters_by_name():
    t = {"a": 1, "b": [2]}
    leaves, treedef = tree.flatten(tree=t)
    assert tree.leaves(tree=t) == leaves == [1, 2]
    assert tree.structure(tree=t) == treedef
    assert tree.unflatten(treedef=treedef, leaves=leaves) == treedef.unflatten(leaves=leaves) == t
    assert tree.flatten_with_path(tree=t)[0] == [(("a",), 1), (("b", 0), 2)]
    assert tree.map(f=lambda x: x + 1, tree=t) == {"a": 2, "b": [3]}
    with pytest.raises(TypeError, match=r"flatten\(\) has no parameter 'x'"):
        tree.flatten(x=t)
    with pytest.raises(TypeError, match="unflatten: treedef is a TreeDef, not a dict"):
        tree.unflatten(t, leaves)


@pytest.mark.parametrize("t", [*TREES, Pair(1, [2], "k"), Named(1, "k")], ids=repr)
def test_a_structure_can_be_copied_and_pickled(t):
    treedef = tree.structure(t)
    for other in (copy.copy(treedef), copy.deepcopy(treedef), pickle.loads(pickle.dumps(treedef))):
        assert other == treedef and hash(other) == hash(treedef) and repr(other) == repr(treedef)
