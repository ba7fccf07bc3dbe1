/* tree.c: pytrees: nested dicts (by sorted keys), lists, tuples, NamedTuples, None and registered
   classes around leaves.

   A TreeDef lists the nodes in preorder. The call path of compiled functions never builds one:
   tree_match walks the arguments along a TreeDef that it has, which needs no sorting and no
   allocation, and says whether they have that structure. */
#include "ext.h"

enum { MAX_DEPTH = 400 };

/* class -> (flatten, unflatten, names or None). Classes are looked up by identity; subclasses are
   other classes. */
static PyObject *registry;

void leaves_free(Leaves *l)
{
    for (Py_ssize_t i = 0; i < l->n; i++) Py_XDECREF(l->v[i]);
    if (l->v != l->few) PyMem_Free(l->v);
    l->v = NULL;
    l->n = l->cap = 0;
}

static bool more(Leaves *l)
{
    enum { FEW = sizeof l->few / sizeof *l->few };
    if (!l->cap) {
        l->v = l->few;
        l->cap = FEW;
        return true;
    }
    PyObject **v = PyMem_Realloc(l->v == l->few ? NULL : l->v, 2 * sizeof *v * (size_t)l->cap);
    if (!v) return PyErr_NoMemory(), false;
    if (l->v == l->few) memcpy(v, l->few, sizeof l->few);
    l->v = v;
    l->cap *= 2;
    return true;
}

bool leaves_push(Leaves *l, PyObject *o)
{
    if (l->n == l->cap && !more(l)) {
        Py_DECREF(o);
        return false;
    }
    l->v[l->n++] = o;
    return true;
}

/* ---- one level ---- */

static PyObject *registered(PyObject *cls)
{
    return PyDict_Size(registry) ? PyDict_GetItem(registry, cls) : NULL;
}

PyObject *tree_names(PyObject *cls)
{
    PyObject *entry = registered(cls), *names = entry ? PyTuple_GET_ITEM(entry, 2) : NULL;
    return names && names != Py_None ? names : NULL;
}

static bool is_named(PyObject *o)
{
    return PyTuple_Check(o) && !PyTuple_CheckExact(o) &&
           PyObject_HasAttrString((PyObject *)Py_TYPE(o), "_fields");
}

static NodeKind kind_of(PyObject *o)
{
    if (array_check(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o)) return NODE_LEAF;
    if (o == Py_None) return NODE_NONE;
    if (PyTuple_CheckExact(o)) return NODE_TUPLE;
    if (PyList_CheckExact(o)) return NODE_LIST;
    if (PyDict_CheckExact(o)) return NODE_DICT;
    if (is_named(o)) return NODE_NAMED;
    return registered((PyObject *)Py_TYPE(o)) ? NODE_CUSTOM : NODE_LEAF;
}

static PyObject *sorted_keys(PyObject *dict)
{
    PyObject *keys = PyDict_Keys(dict);
    if (keys && PyList_Sort(keys)) {
        Py_CLEAR(keys);
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            PyErr_SetString(PyExc_TypeError,
                            "the keys of a dict in a pytree must be sortable among themselves");
        }
    }
    PyObject *tuple = keys ? PyList_AsTuple(keys) : NULL;
    Py_XDECREF(keys);
    return tuple;
}

static PyObject *dict_values(PyObject *dict, PyObject *keys)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(keys);
    PyObject *values = PyTuple_New(n);
    for (Py_ssize_t i = 0; values && i < n; i++) {
        PyObject *x = PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(keys, i));
        if (!x) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_RuntimeError, "a dict changed while it was read");
            Py_CLEAR(values);
        } else {
            PyTuple_SET_ITEM(values, i, Py_NewRef(x));
        }
    }
    return values;
}

/* (children, aux) from the class's own function. */
static PyObject *custom_children(PyObject *o, PyObject **aux)
{
    PyObject *entry = registered((PyObject *)Py_TYPE(o));
    PyObject *pair = PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(entry, 0), o, NULL);
    PyObject *children = NULL;
    if (pair && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2) {
        children = PySequence_Tuple(PyTuple_GET_ITEM(pair, 0));
        if (children) *aux = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    } else if (pair) {
        PyErr_Format(PyExc_TypeError, "the flatten function of %s must return (children, aux)",
                     Py_TYPE(o)->tp_name);
    }
    Py_XDECREF(pair);
    return children;
}

void tree_node_clear(TreeNode *node)
{
    Py_CLEAR(node->cls);
    Py_CLEAR(node->aux);
}

PyObject *tree_children(PyObject *o, TreeNode *node)
{
    *node = (TreeNode){.kind = (uint8_t)kind_of(o)};
    PyObject *children = NULL;
    switch (node->kind) {
    case NODE_LEAF: return NULL;
    case NODE_NONE: children = PyTuple_New(0); break;
    case NODE_TUPLE: children = Py_NewRef(o); break;
    case NODE_LIST: children = PyList_AsTuple(o); break;
    case NODE_NAMED: children = PyTuple_GetSlice(o, 0, PyTuple_GET_SIZE(o)); break;
    case NODE_DICT:
        node->aux = sorted_keys(o);
        children = node->aux ? dict_values(o, node->aux) : NULL;
        break;
    case NODE_CUSTOM: children = custom_children(o, &node->aux); break;
    default: break;
    }
    if (node->kind == NODE_NAMED || node->kind == NODE_CUSTOM)
        node->cls = Py_NewRef((PyObject *)Py_TYPE(o));
    if (children)
        node->n = (int32_t)PyTuple_GET_SIZE(children);
    else
        tree_node_clear(node);
    return children;
}

/* ---- flatten ---- */

typedef struct {
    TreeNode *v;
    Py_ssize_t n, cap;
} Nodes;

static void nodes_free(Nodes *nodes)
{
    for (Py_ssize_t i = 0; i < nodes->n; i++) tree_node_clear(&nodes->v[i]);
    PyMem_Free(nodes->v);
}

static bool nodes_push(Nodes *nodes, TreeNode node)
{
    if (nodes->n == nodes->cap) {
        const Py_ssize_t cap = nodes->cap ? 2 * nodes->cap : 8;
        TreeNode *v = PyMem_Realloc(nodes->v, sizeof *v * (size_t)cap);
        if (!v) {
            tree_node_clear(&node);
            return PyErr_NoMemory(), false;
        }
        nodes->v = v;
        nodes->cap = cap;
    }
    nodes->v[nodes->n++] = node;
    return true;
}

static bool flatten(PyObject *o, Nodes *nodes, Leaves *leaves, int depth)
{
    TreeNode node;
    if (depth > MAX_DEPTH) {
        PyErr_Format(PyExc_ValueError,
                     "a pytree nested deeper than %d, or one that contains itself", MAX_DEPTH);
        return false;
    }
    PyObject *children = tree_children(o, &node);
    if (!children) {
        if (node.kind != NODE_LEAF || PyErr_Occurred()) return false;
        return nodes_push(nodes, node) && leaves_push(leaves, Py_NewRef(o));
    }
    const int32_t n = node.n;
    bool ok = nodes_push(nodes, node);
    for (int32_t i = 0; ok && i < n; i++)
        ok = flatten(PyTuple_GET_ITEM(children, i), nodes, leaves, depth + 1);
    Py_DECREF(children);
    return ok;
}

static TreeDef *finish(Nodes *nodes, Py_ssize_t n_leaves, bool ok)
{
    TreeDef *t = ok ? PyObject_GC_NewVar(TreeDef, core.TreeDef, nodes->n) : NULL;
    if (!t) {
        nodes_free(nodes);
        return NULL;
    }
    t->n_leaves = n_leaves;
    memcpy(t->nodes, nodes->v, sizeof *nodes->v * (size_t)nodes->n);
    PyMem_Free(nodes->v);
    PyObject_GC_Track(t);
    return t;
}

TreeDef *tree_flatten(PyObject *o, Leaves *leaves)
{
    Nodes nodes = {0};
    const Py_ssize_t before = leaves->n;
    const bool ok = flatten(o, &nodes, leaves, 0);
    return finish(&nodes, leaves->n - before, ok);
}

TreeDef *tree_flatten_args(PyObject *const *args, Py_ssize_t n, const bool *opaque, Leaves *leaves)
{
    Nodes nodes = {0};
    const Py_ssize_t before = leaves->n;
    bool ok = nodes_push(&nodes, (TreeNode){.kind = NODE_TUPLE, .n = (int32_t)n});
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        if (opaque && opaque[i])
            ok = nodes_push(&nodes, (TreeNode){.kind = NODE_LEAF}) &&
                 leaves_push(leaves, Py_NewRef(args[i]));
        else
            ok = flatten(args[i], &nodes, leaves, 1);
    }
    return finish(&nodes, leaves->n - before, ok);
}

/* ---- match ---- */

int tree_match_all(const TreeDef *t, Py_ssize_t *at, PyObject *const *v, Py_ssize_t n,
                   Leaves *leaves)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        const int m = tree_match(t, at, v[i], leaves);
        if (m != 1) return m;
    }
    return 1;
}

/* A list may change while a registered class is asked for its children. */
static int match_list(const TreeDef *t, Py_ssize_t *at, const TreeNode *node, PyObject *list,
                      Leaves *leaves)
{
    if (PyList_GET_SIZE(list) != node->n) return 0;
    for (int32_t i = 0; i < node->n; i++) {
        if (i >= PyList_GET_SIZE(list)) return 0;
        PyObject *x = Py_NewRef(PyList_GET_ITEM(list, i));
        const int m = tree_match(t, at, x, leaves);
        Py_DECREF(x);
        if (m != 1) return m;
    }
    return 1;
}

static int match_dict(const TreeDef *t, Py_ssize_t *at, const TreeNode *node, PyObject *dict,
                      Leaves *leaves)
{
    if (PyDict_GET_SIZE(dict) != node->n) return 0;
    for (int32_t i = 0; i < node->n; i++) {
        PyObject *x = PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(node->aux, i));
        if (!x) return PyErr_Occurred() ? -1 : 0;
        Py_INCREF(x);
        const int m = tree_match(t, at, x, leaves);
        Py_DECREF(x);
        if (m != 1) return m;
    }
    return 1;
}

static int match_custom(const TreeDef *t, Py_ssize_t *at, const TreeNode *node, PyObject *o,
                        Leaves *leaves)
{
    TreeNode mine;
    PyObject *children = tree_children(o, &mine);
    if (!children) return -1;
    int m = mine.n == node->n ? PyObject_RichCompareBool(mine.aux, node->aux, Py_EQ) : 0;
    if (m == 1) m = tree_match_all(t, at, PySequence_Fast_ITEMS(children), mine.n, leaves);
    tree_node_clear(&mine);
    Py_DECREF(children);
    return m;
}

int tree_match(const TreeDef *t, Py_ssize_t *at, PyObject *o, Leaves *leaves)
{
    const TreeNode *node = &t->nodes[(*at)++];
    const NodeKind kind = kind_of(o);
    if (kind != node->kind) return 0;
    switch (kind) {
    case NODE_LEAF: return leaves_push(leaves, Py_NewRef(o)) ? 1 : -1;
    case NODE_NONE: return 1;
    case NODE_NAMED:
        if ((PyObject *)Py_TYPE(o) != node->cls) return 0;
        /* fall through */
    case NODE_TUPLE:
        return PyTuple_GET_SIZE(o) == node->n
                   ? tree_match_all(t, at, PySequence_Fast_ITEMS(o), node->n, leaves)
                   : 0;
    case NODE_LIST: return match_list(t, at, node, o, leaves);
    case NODE_DICT: return match_dict(t, at, node, o, leaves);
    case NODE_CUSTOM:
        return (PyObject *)Py_TYPE(o) == node->cls ? match_custom(t, at, node, o, leaves) : 0;
    }
    return 0;
}

/* ---- unflatten ---- */

static PyObject *build_dict(const TreeNode *node, PyObject *children)
{
    PyObject *dict = PyDict_New();
    for (int32_t i = 0; dict && i < node->n; i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(node->aux, i), PyTuple_GET_ITEM(children, i)))
            Py_CLEAR(dict);
    return dict;
}

static PyObject *build_named(const TreeNode *node, PyObject *children)
{
    PyObject *args = PyTuple_Pack(1, children);
    PyObject *out = args ? PyTuple_Type.tp_new((PyTypeObject *)node->cls, args, NULL) : NULL;
    Py_XDECREF(args);
    return out;
}

static PyObject *build_custom(const TreeNode *node, PyObject *children)
{
    PyObject *entry = registered(node->cls);
    return PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(entry, 1), node->aux, children, NULL);
}

static PyObject *unflatten(const TreeDef *t, Py_ssize_t *at, PyObject *const **leaf)
{
    const TreeNode *node = &t->nodes[(*at)++];
    if (node->kind == NODE_LEAF) return Py_NewRef(*(*leaf)++);
    if (node->kind == NODE_NONE) return Py_NewRef(Py_None);
    const bool list = node->kind == NODE_LIST;
    PyObject *children = list ? PyList_New(node->n) : PyTuple_New(node->n), *out = NULL;
    for (int32_t i = 0; children && i < node->n; i++) {
        PyObject *x = unflatten(t, at, leaf);
        if (!x)
            Py_CLEAR(children);
        else if (list)
            PyList_SET_ITEM(children, i, x);
        else
            PyTuple_SET_ITEM(children, i, x);
    }
    if (!children || list || node->kind == NODE_TUPLE) return children;
    if (node->kind == NODE_DICT)
        out = build_dict(node, children);
    else
        out = node->kind == NODE_NAMED ? build_named(node, children) : build_custom(node, children);
    Py_DECREF(children);
    return out;
}

PyObject *tree_unflatten(const TreeDef *t, PyObject *const *leaves)
{
    return tree_unflatten_part(t, 0, leaves);
}

PyObject *tree_unflatten_part(const TreeDef *t, Py_ssize_t node, PyObject *const *leaves)
{
    return unflatten(t, &node, &leaves);
}

bool tree_same(const TreeDef *a, const TreeDef *b)
{
    if (a == b) return true;
    if (Py_SIZE(a) != Py_SIZE(b) || a->n_leaves != b->n_leaves) return false;
    for (Py_ssize_t i = 0; i < Py_SIZE(a); i++) {
        const TreeNode *x = &a->nodes[i], *y = &b->nodes[i];
        if (x->kind != y->kind || x->n != y->n || x->cls != y->cls) return false;
        if (x->aux == y->aux) continue;
        const int same = PyObject_RichCompareBool(x->aux, y->aux, Py_EQ);
        if (same < 0) PyErr_Clear();
        if (same != 1) return false;
    }
    return true;
}

/* ---- paths ---- */

/* What child i of a node is called: a key, a field, a position. New reference. */
PyObject *tree_step_name(const TreeNode *node, int32_t i)
{
    PyObject *names = NULL;
    if (node->kind == NODE_DICT) return Py_NewRef(PyTuple_GET_ITEM(node->aux, i));
    if (node->kind == NODE_NAMED)
        names = PyObject_GetAttrString(node->cls, "_fields");
    else if (node->kind == NODE_CUSTOM)
        names = Py_XNewRef(tree_names(node->cls));
    PyObject *name = names ? PySequence_GetItem(names, i) : NULL;
    Py_XDECREF(names);
    if (name) return name;
    PyErr_Clear();
    return PyLong_FromLong(i);
}

/* Appends to `path` the way to a leaf below the node at *at. 1 found, 0 not below here (*at is
   behind it then), -1 exception. */
static int find_leaf(const TreeDef *t, Py_ssize_t *at, Py_ssize_t *leaf, PyObject *path)
{
    const TreeNode *node = &t->nodes[(*at)++];
    if (node->kind == NODE_LEAF) return (*leaf)-- == 0;
    for (int32_t i = 0; i < node->n; i++) {
        PyObject *name = tree_step_name(node, i);
        if (!name || PyList_Append(path, name)) return Py_XDECREF(name), -1;
        Py_DECREF(name);
        const int found = find_leaf(t, at, leaf, path);
        if (found) return found;
        if (PyList_SetSlice(path, PyList_GET_SIZE(path) - 1, PyList_GET_SIZE(path), NULL))
            return -1;
    }
    return 0;
}

PyObject *tree_path(const TreeDef *t, Py_ssize_t leaf)
{
    PyObject *path = PyList_New(0);
    Py_ssize_t at = 0;
    PyObject *out = path && find_leaf(t, &at, &leaf, path) >= 0 ? PyList_AsTuple(path) : NULL;
    Py_XDECREF(path);
    return out;
}

PyObject *tree_path_text(const TreeDef *t, Py_ssize_t leaf, Py_ssize_t skip)
{
    PyObject *path = tree_path(t, leaf), *text = path ? PyUnicode_FromString("") : NULL;
    for (Py_ssize_t i = skip; text && i < PyTuple_GET_SIZE(path); i++)
        Py_SETREF(text, PyUnicode_FromFormat(i > skip ? "%U/%S" : "%U%S", text,
                                             PyTuple_GET_ITEM(path, i)));
    Py_XDECREF(path);
    return text;
}

/* ---- registering ---- */

/* _register(cls, flatten, unflatten, names=None): names are the field names of the children, for
   paths and reprs. */
static PyObject *add_class(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *cls, *take, *build, *names = Py_None;
    if (!PyArg_ParseTuple(args, "OOO|O:register", &cls, &take, &build, &names)) return NULL;
    if (!PyType_Check(cls) || !PyCallable_Check(take) || !PyCallable_Check(build)) {
        PyErr_SetString(PyExc_TypeError,
                        "register(cls, flatten, unflatten): a class and two functions");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    const bool builtin = type == &PyDict_Type || type == &PyList_Type || type == &PyTuple_Type ||
                         type == Py_TYPE(Py_None) || type == core.Tensor || type == core.Tracer;
    if (builtin || registered(cls)) {
        PyErr_Format(PyExc_ValueError, "%s is a pytree class already", type->tp_name);
        return NULL;
    }
    PyObject *entry = PyTuple_Pack(3, take, build, names);
    const int failed = !entry || PyDict_SetItem(registry, cls, entry);
    Py_XDECREF(entry);
    return failed ? NULL : Py_NewRef(cls);
}

static PyMethodDef functions[] = {
    {"_register", add_class, METH_VARARGS,
     "_register(cls, flatten, unflatten, names=None)\n--\n\nMake a class a pytree node."},
    {0},
};

bool tree_init(PyObject *m)
{
    registry = PyDict_New();
    return registry && !PyModule_AddFunctions(m, functions) && treedef_init(m);
}
