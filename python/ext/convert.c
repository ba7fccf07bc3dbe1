/* convert.c: other objects become Tensors, and Tensors become lists and NumPy arrays.

   Memory comes in by the buffer protocol (NumPy is never imported for it), nested lists by two
   walks: the first finds the shape, the second checks every length and reads the numbers as
   float64, which holds every value of every dtype here. */
#include "ext.h"

/* ---- strided copies ---- */

/* One row of n elements, `stride` bytes apart. */
static void gather_row(char *dst, const char *src, int64_t item, int64_t n, int64_t stride)
{
    if (stride == item)
        memcpy(dst, src, (size_t)(n * item));
    else if (item == 8)
        for (int64_t i = 0; i < n; i++) memcpy(dst + 8 * i, src + i * stride, 8);
    else if (item == 4)
        for (int64_t i = 0; i < n; i++) memcpy(dst + 4 * i, src + i * stride, 4);
    else
        for (int64_t i = 0; i < n; i++) dst[i] = src[i * stride];
}

void convert_gather(char *dst, const char *src, int64_t item, int rank, const int64_t *dims,
                    const int64_t *strides)
{
    int64_t d[QB_MAX_RANK + 1] = {1}, s[QB_MAX_RANK + 1] = {item}, at[QB_MAX_RANK + 1] = {0};
    int n = 1; /* axes from the innermost on, neighbours merged where one stride serves both */
    for (int i = rank - 1; i >= 0; i--) {
        if (dims[i] == 1) continue;
        if (d[n - 1] == 1)
            d[n - 1] = dims[i], s[n - 1] = strides[i];
        else if (strides[i] == d[n - 1] * s[n - 1])
            d[n - 1] *= dims[i];
        else
            d[n] = dims[i], s[n++] = strides[i];
    }
    for (;;) {
        gather_row(dst, src, item, d[0], s[0]);
        dst += d[0] * item;
        int axis = 1;
        for (; axis < n; axis++) {
            src += s[axis];
            if (++at[axis] < d[axis]) break;
            src -= s[axis] * d[axis];
            at[axis] = 0;
        }
        if (axis == n) return;
    }
}

/* ---- numbers of other kinds ---- */

/* Element kinds of a buffer: our dtypes, then integers by size and sign. */
typedef enum {
    K_F32 = QB_F32,
    K_F64 = QB_F64,
    K_BOOL = QB_BOOL,
    K_I1,
    K_I2,
    K_I4,
    K_I8,
    K_U1,
    K_U2,
    K_U4,
    K_U8,
    K_NONE
} Kind;

static Kind kind_of(const Py_buffer *view)
{
    const char *f = view->format ? view->format : "B";
    if (*f == '@' || *f == '=' || (*f == '<' && PY_LITTLE_ENDIAN)) f++;
    if (!*f || f[1]) return K_NONE;
    if (*f == 'f') return K_F32;
    if (*f == 'd') return K_F64;
    if (*f == '?') return K_BOOL;
    const Kind base = strchr("bhilqn", *f) ? K_I1 : strchr("BHILQN", *f) ? K_U1 : K_NONE;
    if (base == K_NONE) return base;
    return view->itemsize == 1   ? base
           : view->itemsize == 2 ? base + 1
           : view->itemsize == 4 ? base + 2
           : view->itemsize == 8 ? base + 3
                                 : K_NONE;
}

/* n elements of kind k, `stride` bytes apart, as double. */
static void read_row(Kind k, const char *src, int64_t stride, int64_t n, double *out)
{
    /* clang-format off */
#define READ(kind, type) \
    case kind: \
        for (int64_t i = 0; i < n; i++) { \
            type v; \
            memcpy(&v, src + i * stride, sizeof v); \
            out[i] = (double)v; \
        } \
        break;
    switch (k) {
    READ(K_F32, float) READ(K_F64, double) READ(K_BOOL, uint8_t)
    READ(K_I1, int8_t) READ(K_I2, int16_t) READ(K_I4, int32_t) READ(K_I8, int64_t)
    READ(K_U1, uint8_t) READ(K_U2, uint16_t) READ(K_U4, uint32_t) READ(K_U8, uint64_t)
    case K_NONE: break;
    }
    /* clang-format on */
#undef READ
}

/* n doubles as elements of a dtype. */
static void write_row(int dtype, char *dst, const double *src, int64_t n)
{
    if (dtype == QB_F64)
        memcpy(dst, src, (size_t)n * sizeof *src);
    else if (dtype == QB_F32)
        for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)src[i];
    else
        for (int64_t i = 0; i < n; i++) dst[i] = src[i] != 0;
}

/* The elements of a buffer with these axes into dst, row-major, as `dtype`. Some exporters (ctypes)
   give no strides, which means row-major, even where strides are asked for. */
static void import_rows(const Py_buffer *view, const int64_t *dims, Kind kind, int dtype, char *dst)
{
    enum { CHUNK = 256 };
    const int64_t item = qb_dtype_size(dtype);
    const int rank = view->ndim;
    int64_t strides[QB_MAX_RANK], packed = view->itemsize;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = view->strides ? view->strides[i] : packed;
        packed *= dims[i];
    }
    if (kind == (Kind)dtype && kind != K_BOOL) {
        convert_gather(dst, view->buf, item, rank, dims, strides);
        return;
    }
    const int64_t n = rank ? dims[rank - 1] : 1, step = rank ? strides[rank - 1] : item;
    const char *src = view->buf;
    int64_t at[QB_MAX_RANK] = {0};
    double row[CHUNK];
    for (;;) {
        for (int64_t i = 0; i < n; i += CHUNK) {
            const int64_t m = n - i < CHUNK ? n - i : CHUNK;
            read_row(kind, src + i * step, step, m, row);
            write_row(dtype, dst + i * item, row, m);
        }
        dst += n * item;
        int axis = rank - 2;
        for (; axis >= 0; axis--) {
            src += strides[axis];
            if (++at[axis] < dims[axis]) break;
            src -= strides[axis] * dims[axis];
            at[axis] = 0;
        }
        if (axis < 0) return;
    }
}

/* ---- buffers ---- */

static bool buffer_type(const Py_buffer *view, PyObject *o, qb_type *t)
{
    if (view->ndim > QB_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "array: %d axes; at most %d", view->ndim, QB_MAX_RANK);
        return false;
    }
    t->rank = (uint8_t)view->ndim;
    for (int i = 0; i < view->ndim; i++) {
        t->dims[i] = view->shape ? view->shape[i] : view->len / view->itemsize;
        if (t->dims[i] > 0) continue;
        PyErr_Format(
            PyExc_ValueError,
            "array: this %s has length 0 along axis %d; arrays without elements are not supported",
            Py_TYPE(o)->tp_name, i);
        return false;
    }
    return true;
}

/* NumPy's arrays have a dtype to name, other buffers their format only. view: NULL when there is no
   buffer, for which the exception is set. */
static void bad_elements(PyObject *o, const Py_buffer *view)
{
    PyObject *class, *value, *trace;
    PyErr_Fetch(&class, &value, &trace);
    PyObject *dtype = PyObject_GetAttrString(o, "dtype");
    if (!dtype && !view) {
        PyErr_Restore(class, value, trace);
        return;
    }
    PyErr_Clear();
    Py_XDECREF(class);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyObject *name = dtype ? PyObject_Str(dtype)
                           : PyUnicode_FromFormat("format '%s'", view->format ? view->format : "B");
    if (name)
        PyErr_Format(
            PyExc_TypeError,
            "array: elements of %U are not supported; convert to float64, float32 or bool first",
            name);
    Py_XDECREF(dtype);
    Py_XDECREF(name);
}

static PyObject *from_buffer(PyObject *o, int dtype, bool *weak)
{
    Py_buffer view;
    if (PyObject_GetBuffer(o, &view, PyBUF_FULL_RO)) return bad_elements(o, NULL), NULL;
    const Kind kind = kind_of(&view);
    qb_type t = {0};
    Tensor *out = NULL;
    if (kind == K_NONE || view.suboffsets) {
        bad_elements(o, &view);
    } else if (buffer_type(&view, o, &t)) {
        if (weak) *weak = dtype < 0 && !view.ndim && kind > K_BOOL;
        t.dtype = (uint8_t)(dtype >= 0 ? dtype : kind > K_BOOL ? QB_F64 : (int)kind);
        out = tensor_empty(&t);
        if (out) import_rows(&view, t.dims, kind, t.dtype, qb_buffer_data(out->buffer));
    }
    PyBuffer_Release(&view);
    return (PyObject *)out;
}

/* ---- nested lists ---- */

bool convert_int(PyObject *o, double *out)
{
    *out = PyLong_AsDouble(o);
    if (*out != -1 || !PyErr_Occurred()) return true;
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_SetString(PyExc_OverflowError, "array: an int is too large for float64");
    return false;
}

typedef struct {
    qb_type type;
    int64_t at[QB_MAX_RANK]; /* position, for messages */
    double *out;
    bool number, boolean, f32, f64; /* kinds of element met */
} Nested;

static bool is_list(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o) || PyRange_Check(o); }

static void *ragged(Nested *w, int depth, PyObject *o)
{
    PyObject *at = PyList_New(0);
    for (int i = 0; at && i < depth; i++) {
        PyObject *n = PyLong_FromLongLong(w->at[i]);
        if (!n || PyList_Append(at, n)) Py_CLEAR(at);
        Py_XDECREF(n);
    }
    if (!at) return NULL;
    if (is_list(o) || ops_foreign(o) || tensor_check(o)) {
        const Py_ssize_t n = PyObject_Size(o);
        if (n < 0) PyErr_Clear();
        if (depth < w->type.rank)
            PyErr_Format(PyExc_ValueError,
                         "array: element %R has length %zd where others have %lld", at, n,
                         (long long)w->type.dims[depth]);
        else
            PyErr_Format(PyExc_ValueError, "array: element %R is a %s where others are numbers", at,
                         Py_TYPE(o)->tp_name);
    } else {
        PyErr_Format(PyExc_ValueError,
                     "array: element %R is %s where others are lists of length %lld", at,
                     stage_kind(o), (long long)w->type.dims[depth]);
    }
    Py_DECREF(at);
    return NULL;
}

/* First walk: along the first elements. */
static bool find_shape(PyObject *o, Nested *w)
{
    PyObject *owned = NULL;
    bool ok = true;
    Py_INCREF(o);
    while (ok && is_list(o)) {
        const Py_ssize_t n = PySequence_Size(o);
        if (w->type.rank == QB_MAX_RANK)
            PyErr_Format(PyExc_ValueError,
                         "array: lists nested deeper than %d, or a list that contains itself",
                         QB_MAX_RANK);
        else if (!n)
            PyErr_SetString(PyExc_ValueError,
                            "array: an empty list; arrays without elements are not supported");
        ok = n > 0 && w->type.rank < QB_MAX_RANK;
        if (!ok) break;
        w->type.dims[w->type.rank++] = n;
        PyObject *first = PySequence_GetItem(o, 0);
        Py_DECREF(o);
        o = first;
        ok = o != NULL;
    }
    if (ok && !is_list(o) && (tensor_check(o) || ops_foreign(o))) {
        owned = convert_array(o, -1, false, NULL);
        ok = owned != NULL;
        const qb_type *t = ok ? &((Tensor *)owned)->type : NULL;
        if (ok && t->rank + w->type.rank > QB_MAX_RANK) {
            PyErr_Format(PyExc_ValueError, "array: more than %d axes", QB_MAX_RANK);
            ok = false;
        }
        for (int i = 0; ok && i < t->rank; i++) w->type.dims[w->type.rank++] = t->dims[i];
    }
    Py_XDECREF(o);
    Py_XDECREF(owned);
    return ok;
}

static bool fill_array(PyObject *o, int depth, Nested *w)
{
    PyObject *x = convert_array(o, -1, false, NULL);
    if (!x) return false;
    const Tensor *t = (Tensor *)x;
    const int rest = w->type.rank - depth;
    const bool fits = t->type.rank == rest && !memcmp(t->type.dims, w->type.dims + depth,
                                                      sizeof *t->type.dims * (size_t)rest);
    if (fits) {
        const int64_t n = qb_type_size(&t->type);
        read_row((Kind)t->type.dtype, tensor_data(x), qb_dtype_size(t->type.dtype), n, w->out);
        w->out += n;
        if (t->type.dtype == QB_BOOL)
            w->boolean = true;
        else if (t->type.weak)
            w->number = true;
        else if (t->type.dtype == QB_F32)
            w->f32 = true;
        else
            w->f64 = true;
    } else {
        ragged(w, depth, o);
    }
    Py_DECREF(x);
    return fits;
}

/* Second walk. */
static bool fill(PyObject *o, int depth, Nested *w)
{
    if (is_list(o)) {
        if (depth == w->type.rank || PySequence_Size(o) != w->type.dims[depth])
            return ragged(w, depth, o);
        PyObject *items = PySequence_Fast(o, "not a sequence");
        if (!items) return false;
        bool ok = true;
        for (Py_ssize_t i = 0; ok && i < (Py_ssize_t)w->type.dims[depth]; i++) {
            w->at[depth] = i;
            if (i >= PySequence_Fast_GET_SIZE(items)) { /* __array__ of an element may do this */
                PyErr_SetString(PyExc_ValueError, "array: a list changed while it was read");
                ok = false;
                break;
            }
            PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
            ok = fill(item, depth + 1, w);
            Py_DECREF(item);
        }
        Py_DECREF(items);
        return ok;
    }
    if (PyFloat_Check(o) || PyLong_Check(o)) {
        if (depth != w->type.rank) return ragged(w, depth, o);
        if (PyFloat_Check(o))
            *w->out = PyFloat_AS_DOUBLE(o);
        else if (!convert_int(o, w->out))
            return false;
        w->out++;
        *(PyBool_Check(o) ? &w->boolean : &w->number) = true;
        return true;
    }
    if (tensor_check(o) || ops_foreign(o)) return fill_array(o, depth, w);
    if (tracer_check(o))
        PyErr_SetString(core.TracerError,
                        "array: a list with TraceTensors has no data yet; use quabla.stack");
    else
        PyErr_Format(PyExc_TypeError, "array: cannot convert %s to a number", stage_kind(o));
    return false;
}

static PyObject *from_list(PyObject *o, int dtype)
{
    Nested w = {.type = {.dtype = QB_F64}};
    if (!find_shape(o, &w)) return NULL;
    Tensor *wide = tensor_empty(&w.type), *out = NULL;
    if (!wide) return NULL;
    w.out = qb_buffer_data(wide->buffer);
    if (fill(o, 0, &w)) {
        if (dtype < 0 && w.f32 && w.f64)
            PyErr_SetString(PyExc_ValueError, "array: the list holds f32 and f64 arrays; use "
                                              "astype on one of them, or give dtype");
        else {
            w.type.dtype = (uint8_t)(dtype >= 0          ? dtype
                                     : w.f32             ? QB_F32
                                     : w.f64 || w.number ? QB_F64
                                                         : QB_BOOL);
            out = w.type.dtype == QB_F64 ? (Tensor *)Py_NewRef((PyObject *)wide)
                                         : tensor_empty(&w.type);
            if (out && out != wide)
                write_row(w.type.dtype, qb_buffer_data(out->buffer), qb_buffer_data(wide->buffer),
                          qb_type_size(&w.type));
        }
    }
    Py_DECREF(wide);
    return (PyObject *)out;
}

/* ---- anything ---- */

static PyObject *from_tensor(PyObject *o, int dtype, bool copy)
{
    const Tensor *t = (Tensor *)o;
    if (dtype >= 0 && dtype != t->type.dtype) return shape_astype(o, dtype);
    if (!copy && (dtype < 0 || !t->type.weak)) return Py_NewRef(o);
    qb_type type = t->type;
    type.weak = 0;
    return tensor_new(qb_buffer_retain(t->buffer),
                      &type); /* nobody can change it, so the memory is shared */
}

PyObject *convert_array(PyObject *o, int dtype, bool copy, bool *weak)
{
    if (tensor_check(o)) return from_tensor(o, dtype, copy);
    if (view_check(o)) {
        PyObject *t = view_tensor(o), *out = t ? from_tensor(t, dtype, false) : NULL;
        Py_XDECREF(t);
        return out;
    }
    if (tracer_check(o)) return dtype < 0 ? Py_NewRef(o) : shape_astype(o, dtype);
    if (PyFloat_Check(o)) return tensor_scalar(PyFloat_AS_DOUBLE(o), dtype < 0 ? QB_F64 : dtype);
    if (PyBool_Check(o)) return tensor_scalar(o == Py_True, dtype < 0 ? QB_BOOL : dtype);
    if (PyLong_Check(o)) {
        double v;
        return convert_int(o, &v) ? tensor_scalar(v, dtype < 0 ? QB_F64 : dtype) : NULL;
    }
    if (is_list(o)) return from_list(o, dtype);
    if (PyObject_CheckBuffer(o) && !PyBytes_Check(o) && !PyByteArray_Check(o))
        return from_buffer(o, dtype, weak);
    if (ops_foreign(o)) {
        PyObject *array = PyObject_CallMethod(o, "__array__", NULL), *out = NULL;
        if (array && PyObject_CheckBuffer(array))
            out = from_buffer(array, dtype, weak);
        else if (array)
            PyErr_Format(PyExc_TypeError, "array: %s.__array__() returned no array",
                         Py_TYPE(o)->tp_name);
        Py_XDECREF(array);
        return out;
    }
    PyErr_Format(
        PyExc_TypeError,
        "array: cannot convert %s; arrays come from numbers, lists, NumPy arrays and Tensors",
        stage_kind(o));
    return NULL;
}

PyObject *convert_flat(const qb_type *shape, PyObject *data, int dtype)
{
    PyObject *flat = convert_array(data, dtype, false, NULL), *out = NULL;
    if (!flat) return NULL;
    if (tracer_check(flat))
        PyErr_SetString(core.TracerError, "Tensor: data is a TraceTensor; use reshape");
    else if (qb_type_size(&((Tensor *)flat)->type) != qb_type_size(shape))
        PyErr_Format(PyExc_ValueError,
                     "Tensor: %lld elements do not fill the shape, which takes %lld",
                     (long long)qb_type_size(&((Tensor *)flat)->type),
                     (long long)qb_type_size(shape));
    else {
        qb_type t = *shape;
        t.dtype = ((Tensor *)flat)->type.dtype;
        out = tensor_new(qb_buffer_retain(((Tensor *)flat)->buffer), &t);
    }
    Py_DECREF(flat);
    return out;
}

/* ---- out ---- */

static PyObject *element(const Tensor *t, int64_t i)
{
    const double v = tensor_element(t, i);
    return t->type.dtype == QB_BOOL ? PyBool_FromLong(v != 0) : PyFloat_FromDouble(v);
}

static PyObject *to_list(const Tensor *t, int axis, int64_t *i)
{
    if (axis == t->type.rank) return element(t, (*i)++);
    PyObject *list = PyList_New((Py_ssize_t)t->type.dims[axis]);
    for (Py_ssize_t j = 0; list && j < (Py_ssize_t)t->type.dims[axis]; j++) {
        PyObject *x = to_list(t, axis + 1, i);
        if (x)
            PyList_SET_ITEM(list, j, x);
        else
            Py_CLEAR(list);
    }
    return list;
}

PyObject *convert_tolist(PyObject *o)
{
    int64_t i = 0;
    return to_list((Tensor *)o, 0, &i);
}

PyObject *convert_flat_list(PyObject *o)
{
    const int64_t n = qb_type_size(&((Tensor *)o)->type);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *x = element((Tensor *)o, i);
        if (x)
            PyList_SET_ITEM(list, (Py_ssize_t)i, x);
        else
            Py_CLEAR(list);
    }
    return list;
}

PyObject *convert_numpy(PyObject *o)
{
    PyObject *module = PyImport_ImportModule("numpy"),
             *view = module ? PyMemoryView_FromObject(o) : NULL;
    PyObject *out = view ? PyObject_CallMethod(module, "asarray", "O", view) : NULL;
    Py_XDECREF(view);
    Py_XDECREF(module);
    return out;
}
