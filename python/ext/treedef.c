/* treedef.c: TreeDef as a Python type, and the functions of quabla.tree. */
#include "ext.h"

/* ---- text ---- */

typedef struct {
    const TreeDef *t;
    Py_ssize_t at, leaf;
    PyObject *(*text)(Py_ssize_t, void *);
    void *context;
} Writer;

static PyObject *text_at(Writer *w);

/* "a, b, c" of the n children; label(i) gives what stands before each, or NULL. */
static PyObject *children_text(Writer *w, const TreeNode *node, PyObject *names, bool repr)
{
    PyObject *out = PyUnicode_FromString("");
    for (int32_t i = 0; out && i < node->n; i++) {
        PyObject *child = text_at(w), *name = names && child ? PySequence_GetItem(names, i) : NULL;
        if (!child || (names && !name))
            Py_CLEAR(out);
        else if (!name)
            Py_SETREF(out, PyUnicode_FromFormat(i ? "%U, %U" : "%U%U", out, child));
        else if (repr)
            Py_SETREF(out, PyUnicode_FromFormat(i ? "%U, %R: %U" : "%U%R: %U", out, name, child));
        else
            Py_SETREF(out, PyUnicode_FromFormat(i ? "%U, %U=%U" : "%U%U=%U", out, name, child));
        Py_XDECREF(child);
        Py_XDECREF(name);
    }
    return out;
}

static PyObject *class_text(Writer *w, const TreeNode *node)
{
    PyObject *names = node->kind == NODE_NAMED ? PyObject_GetAttrString(node->cls, "_fields")
                                               : Py_XNewRef(tree_names(node->cls));
    if (!names) PyErr_Clear();
    PyObject *inner = children_text(w, node, names, false), *out = NULL;
    const char *name = strrchr(((PyTypeObject *)node->cls)->tp_name, '.');
    name = name ? name + 1 : ((PyTypeObject *)node->cls)->tp_name;
    const bool aux = node->kind == NODE_CUSTOM && node->aux != Py_None &&
                     !(PyTuple_Check(node->aux) && !PyTuple_GET_SIZE(node->aux));
    if (inner && aux)
        out = PyUnicode_FromFormat(node->n ? "%s(%U, aux=%R)" : "%s(%Uaux=%R)", name, inner,
                                   node->aux);
    else if (inner)
        out = PyUnicode_FromFormat("%s(%U)", name, inner);
    Py_XDECREF(inner);
    Py_XDECREF(names);
    return out;
}

static PyObject *text_at(Writer *w)
{
    const TreeNode *node = &w->t->nodes[w->at++];
    if (node->kind == NODE_LEAF) return w->text(w->leaf++, w->context);
    if (node->kind == NODE_NONE) return PyUnicode_FromString("None");
    if (node->kind == NODE_NAMED || node->kind == NODE_CUSTOM) return class_text(w, node);
    PyObject *inner = children_text(w, node, node->kind == NODE_DICT ? node->aux : NULL, true),
             *out = NULL;
    if (!inner) return NULL;
    if (node->kind == NODE_DICT)
        out = PyUnicode_FromFormat("{%U}", inner);
    else if (node->kind == NODE_LIST)
        out = PyUnicode_FromFormat("[%U]", inner);
    else
        out = PyUnicode_FromFormat(node->n == 1 ? "(%U,)" : "(%U)", inner);
    Py_DECREF(inner);
    return out;
}

PyObject *tree_text(const TreeDef *t, PyObject *(*text)(Py_ssize_t, void *), void *context)
{
    return text_at(&(Writer){t, 0, 0, text, context});
}

/* ---- the type ---- */

static PyObject *star(Py_ssize_t Py_UNUSED(i), void *Py_UNUSED(c))
{
    return PyUnicode_FromString("*");
}

static PyObject *repr(PyObject *o)
{
    PyObject *text = tree_text((TreeDef *)o, star, NULL);
    PyObject *out = text ? PyUnicode_FromFormat("TreeDef(%U)", text) : NULL;
    Py_XDECREF(text);
    return out;
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    if (Py_TYPE(a) != Py_TYPE(b) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(tree_same((TreeDef *)a, (TreeDef *)b) == (how == Py_EQ));
}

static Py_hash_t hash(PyObject *o)
{
    const TreeDef *t = (TreeDef *)o;
    Py_uhash_t h = (Py_uhash_t)Py_SIZE(t);
    for (Py_ssize_t i = 0; i < Py_SIZE(t); i++) {
        const TreeNode *node = &t->nodes[i];
        const Py_hash_t aux = node->aux ? PyObject_Hash(node->aux) : 0;
        if (aux == -1 && PyErr_Occurred()) return -1;
        h = (h ^ (Py_uhash_t)aux ^ ((Py_uhash_t)node->kind << 32) ^ (Py_uhash_t)node->n) *
                1000003u +
            ((size_t)node->cls >> 4);
    }
    return (Py_hash_t)h == -1 ? -2 : (Py_hash_t)h;
}

static int traverse(PyObject *o, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(o); i++) {
        Py_VISIT(((TreeDef *)o)->nodes[i].cls);
        Py_VISIT(((TreeDef *)o)->nodes[i].aux);
    }
    Py_VISIT(Py_TYPE(o));
    return 0;
}

static void dealloc(PyObject *o)
{
    PyObject_GC_UnTrack(o);
    for (Py_ssize_t i = 0; i < Py_SIZE(o); i++) tree_node_clear(&((TreeDef *)o)->nodes[i]);
    PyObject_GC_Del(o);
    Py_DECREF(core.TreeDef);
}

static PyObject *unflatten(PyObject *o, PyObject *leaves)
{
    const TreeDef *t = (TreeDef *)o;
    PyObject *list = PySequence_Fast(leaves, "unflatten takes a list of leaves"), *out = NULL;
    if (!list) return NULL;
    if (PySequence_Fast_GET_SIZE(list) == t->n_leaves)
        out = tree_unflatten(t, PySequence_Fast_ITEMS(list));
    else
        PyErr_Format(PyExc_ValueError, "unflatten: %zd leaves for a tree with %zd",
                     PySequence_Fast_GET_SIZE(list), t->n_leaves);
    Py_DECREF(list);
    return out;
}

static const char *const unflatten_names[] = {"treedef", "leaves"};

static PyObject *unflatten_method(PyObject *o, PyObject *const *args, Py_ssize_t n,
                                  PyObject *kwnames)
{
    PyObject *leaves;
    return module_args("unflatten", unflatten_names + 1, 1, 1, args, n, kwnames, &leaves)
               ? unflatten(o, leaves)
               : NULL;
}

/* A copy is made from a tree of the structure; its leaves are zeros, for None is no leaf. */
static PyObject *reduce(PyObject *o, PyObject *Py_UNUSED(none))
{
    const Py_ssize_t n = ((TreeDef *)o)->n_leaves;
    PyObject *list = PyList_New(n), *out = NULL;
    for (Py_ssize_t i = 0; list && i < n; i++) PyList_SET_ITEM(list, i, PyLong_FromLong(0));
    PyObject *tree = list ? unflatten(o, list) : NULL;
    PyObject *module = tree ? PyImport_ImportModule("quabla.tree") : NULL;
    PyObject *restore = module ? PyObject_GetAttrString(module, "_restore") : NULL;
    if (restore) out = Py_BuildValue("(O(O))", restore, tree);
    Py_XDECREF(restore);
    Py_XDECREF(module);
    Py_XDECREF(tree);
    Py_XDECREF(list);
    return out;
}

#define FAST(f) (PyCFunction)(void (*)(void)) f, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {"unflatten", FAST(unflatten_method),
     "unflatten(leaves)\n--\n\nThe tree of this structure with these leaves."},
    {0},
};
static PyMemberDef members[] = {
    {"num_leaves", T_PYSSIZET, offsetof(TreeDef, n_leaves), READONLY, "number of leaves"},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "The structure of a pytree. Compares and hashes by structure."},
    {Py_tp_repr, repr},
    {Py_tp_richcompare, compare},
    {Py_tp_hash, hash},
    {Py_tp_traverse, traverse},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0},
};
static PyType_Spec spec = {"quabla.tree.TreeDef", offsetof(TreeDef, nodes), sizeof(TreeNode),
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

/* ---- quabla.tree ---- */

static const char *const tree_name[] = {"tree"};

static PyObject *list_of(const Leaves *l)
{
    PyObject *list = PyList_New(l->n);
    for (Py_ssize_t i = 0; list && i < l->n; i++) PyList_SET_ITEM(list, i, Py_NewRef(l->v[i]));
    return list;
}

/* The tree of a function that takes one: its structure, and its leaves. */
static TreeDef *flattened(const char *who, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                          Leaves *leaves)
{
    PyObject *o;
    return module_args(who, tree_name, 1, 1, args, n, kwnames, &o) ? tree_flatten(o, leaves) : NULL;
}

static PyObject *tree_flatten_py(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                                 PyObject *kwnames)
{
    Leaves leaves = {0};
    TreeDef *t = flattened("flatten", args, n, kwnames, &leaves);
    PyObject *list = t ? list_of(&leaves) : NULL;
    PyObject *out = list ? PyTuple_Pack(2, list, t) : NULL;
    leaves_free(&leaves);
    Py_XDECREF(list);
    Py_XDECREF(t);
    return out;
}

static PyObject *leaves_py(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames)
{
    Leaves leaves = {0};
    TreeDef *t = flattened("leaves", args, n, kwnames, &leaves);
    PyObject *list = t ? list_of(&leaves) : NULL;
    leaves_free(&leaves);
    Py_XDECREF(t);
    return list;
}

static PyObject *structure_py(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames)
{
    Leaves leaves = {0};
    TreeDef *t = flattened("structure", args, n, kwnames, &leaves);
    leaves_free(&leaves);
    return (PyObject *)t;
}

static PyObject *unflatten_py(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames)
{
    PyObject *a[2];
    if (!module_args("unflatten", unflatten_names, 2, 2, args, n, kwnames, a)) return NULL;
    if (Py_IS_TYPE(a[0], core.TreeDef)) return unflatten(a[0], a[1]);
    PyErr_Format(PyExc_TypeError, "unflatten: treedef is a TreeDef, not a %s; see structure(tree)",
                 Py_TYPE(a[0])->tp_name);
    return NULL;
}

static PyObject *with_path_py(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames)
{
    Leaves leaves = {0};
    TreeDef *t = flattened("flatten_with_path", args, n, kwnames, &leaves);
    PyObject *list = t ? PyList_New(leaves.n) : NULL;
    for (Py_ssize_t i = 0; list && i < leaves.n; i++) {
        PyObject *path = tree_path(t, i), *pair = path ? PyTuple_Pack(2, path, leaves.v[i]) : NULL;
        Py_XDECREF(path);
        if (pair)
            PyList_SET_ITEM(list, i, pair);
        else
            Py_CLEAR(list);
    }
    PyObject *out = list ? PyTuple_Pack(2, list, t) : NULL;
    leaves_free(&leaves);
    Py_XDECREF(list);
    Py_XDECREF(t);
    return out;
}

/* map(f, tree, *rest): f of corresponding leaves. */
static PyObject *map_py(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames)
{
    static const char *const names[] = {"f", "tree"};
    PyObject *named[2];
    if (kwnames) {
        if (!module_args("map", names, 2, 2, args, n, kwnames, named)) return NULL;
        args = named, n = 2;
    }
    if (n < 2) {
        PyErr_SetString(PyExc_TypeError,
                        "map(f, tree, *rest) takes a function and at least one tree");
        return NULL;
    }
    Leaves leaves = {0}, out = {0};
    TreeDef *t = tree_flatten(args[1], &leaves);
    bool ok = t;
    for (Py_ssize_t i = 2; ok && i < n; i++) {
        Py_ssize_t at = 0;
        const int m = tree_match(t, &at, args[i], &leaves);
        ok = m == 1;
        if (m) continue;
        Leaves other = {0};
        TreeDef *wrong = tree_flatten(args[i], &other);
        if (wrong)
            PyErr_Format(PyExc_ValueError, "map: tree %zd has the structure %R, tree 0 has %R",
                         i - 1, wrong, t);
        Py_XDECREF(wrong);
        leaves_free(&other);
    }
    const Py_ssize_t trees = n - 1, count = ok ? t->n_leaves : 0;
    PyObject **column = ok ? PyMem_New(PyObject *, trees) : NULL;
    if (ok && !column) ok = (PyErr_NoMemory(), false);
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        for (Py_ssize_t k = 0; k < trees; k++) column[k] = leaves.v[k * count + i];
        PyObject *x = PyObject_Vectorcall(args[0], column, (size_t)trees, NULL);
        ok = x && leaves_push(&out, x);
    }
    PyObject *result = ok ? tree_unflatten(t, out.v) : NULL;
    PyMem_Free(column);
    leaves_free(&leaves);
    leaves_free(&out);
    Py_XDECREF(t);
    return result;
}

static PyMethodDef functions[] = {
    {"flatten", FAST(tree_flatten_py),
     "flatten(tree)\n"
     "--\n"
     "\n"
     "The leaves of a tree, a list in the order of its structure, and that structure, a TreeDef. "
     "Dicts go by sorted keys.\n"
     "\n"
     "Raises TypeError for keys that cannot be sorted, ValueError for a tree that contains "
     "itself.\n"
     "\n"
     ">>> qb.tree.flatten({\"b\": [1, None], \"a\": 2})\n"
     "([2, 1], TreeDef({'a': *, 'b': [*, None]}))"},
    {"leaves", FAST(leaves_py),
     "leaves(tree)\n"
     "--\n"
     "\n"
     "The leaves of a tree, a list.\n"
     "\n"
     ">>> qb.tree.leaves({\"b\": [1, None], \"a\": 2})\n"
     "[2, 1]"},
    {"structure", FAST(structure_py),
     "structure(tree)\n"
     "--\n"
     "\n"
     "The structure of a tree: a TreeDef, which compares and hashes by classes, keys and aux "
     "data.\n"
     "\n"
     ">>> qb.tree.structure((1, [2])) == qb.tree.structure((3, [4]))\n"
     "True"},
    {"unflatten", FAST(unflatten_py),
     "unflatten(treedef, leaves)\n"
     "--\n"
     "\n"
     "The tree of this structure with these leaves. Raises ValueError for another number of them.\n"
     "\n"
     ">>> qb.tree.unflatten(qb.tree.structure({\"a\": 1, \"b\": [2]}), [\"x\", \"y\"])\n"
     "{'a': 'x', 'b': ['y']}"},
    {"flatten_with_path", FAST(with_path_py),
     "flatten_with_path(tree)\n"
     "--\n"
     "\n"
     "A list of (path, leaf), and the structure. A path is a tuple of keys, field names and "
     "positions.\n"
     "\n"
     ">>> qb.tree.flatten_with_path({\"a\": [1, 2]})[0]\n"
     "[(('a', 0), 1), (('a', 1), 2)]"},
    {"map", FAST(map_py),
     "map(f, tree, *rest)\n"
     "--\n"
     "\n"
     "The tree of f of corresponding leaves. Raises ValueError where a tree has another structure "
     "than the first.\n"
     "\n"
     ">>> qb.tree.map(lambda x, y: x + y, {\"a\": 1, \"b\": [2]}, {\"a\": 10, \"b\": [20]})\n"
     "{'a': 11, 'b': [22]}"},
    {0},
};
static PyModuleDef tree_def = {PyModuleDef_HEAD_INIT, .m_name = "quabla._core.tree", .m_size = -1,
                               .m_methods = functions};

bool treedef_init(PyObject *m)
{
    core.TreeDef = (PyTypeObject *)PyType_FromSpec(&spec);
    PyObject *tree = core.TreeDef ? PyModule_Create(&tree_def) : NULL;
    return tree && module_add(tree, "TreeDef", Py_NewRef(core.TreeDef)) &&
           module_add(m, "tree", tree);
}
