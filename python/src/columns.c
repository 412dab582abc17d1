/* columns.c -- answers of queries by column: for DataFrames, and for whoever speaks Arrow. */
#include "trace.h"

#include <opmeter/opmeter_arrow.h>
#include <stdlib.h>
#include <string.h>

/* The name that the Arrow PyCapsule interface gives to streams. */
static const char stream_name[] = "arrow_array_stream";
static const char column_name[] = "opmeter column";

static void stream_free(PyObject *capsule)
{
    struct ArrowArrayStream *s = PyCapsule_GetPointer(capsule, stream_name);

    if (!s)
        return;
    if (s->release)
        s->release(s);
    free(s);
}

/* Run a query to its end, without the GIL. 0, or -1 and an exception. */
static int fetch(struct trace *t, PyObject *sql, struct ArrowArrayStream *out)
{
    const char *text = text_of(sql, "sql");
    opm_error err = { 0 };
    int rc;

    if (!text || !trace_lock(t))
        return -1;
    Py_BEGIN_ALLOW_THREADS
    rc = opm_trace_arrow(t->trace, text, out, &err);
    Py_END_ALLOW_THREADS
    trace_unlock(t);
    if (rc == 0)
        return 0;
    raise_error(state_of(t->module), &err);
    return -1;
}

PyObject *trace_arrow(struct trace *t, PyObject *sql)
{
    struct ArrowArrayStream *s = calloc(1, sizeof(*s));
    PyObject *capsule;

    if (!s)
        return PyErr_NoMemory();
    if (fetch(t, sql, s) < 0) {
        free(s);
        return NULL;
    }
    capsule = PyCapsule_New(s, stream_name, stream_free);
    if (!capsule) {
        s->release(s);
        free(s);
    }
    return capsule;
}

static void column_free(PyObject *capsule)
{
    struct ArrowArray *a = PyCapsule_GetPointer(capsule, column_name);

    if (!a)
        return;
    a->release(a);
    free(a);
}

/* A column of its own, moved out of its parent, in a capsule that frees it. */
static PyObject *column_move(struct ArrowArray *from)
{
    struct ArrowArray *a = malloc(sizeof(*a));
    PyObject *capsule;

    if (!a)
        return PyErr_NoMemory();
    *a = *from;
    from->release = NULL;
    capsule = PyCapsule_New(a, column_name, column_free);
    if (!capsule) {
        a->release(a);
        free(a);
    }
    return capsule;
}

static PyObject *words_of(const struct ArrowArray *dictionary)
{
    const int64_t *offset = dictionary->buffers[1];
    const char *bytes = dictionary->buffers[2];
    PyObject *list = PyList_New((Py_ssize_t)dictionary->length);

    for (int64_t i = 0; list && i < dictionary->length; i++) {
        PyObject *s = PyUnicode_DecodeUTF8(bytes + offset[i],
                                           (Py_ssize_t)(offset[i + 1] - offset[i]), "replace");

        if (!s || PyList_SetItem(list, (Py_ssize_t)i, s) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *address_of(const void *p)
{
    if (!p)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr((void *)(uintptr_t)p);
}

static const char *type_of(const struct ArrowSchema *schema)
{
    switch (*schema->format) {
    case 'l':
        return "int";
    case 'g':
        return "real";
    case 'i':
        return "text";
    default:
        return "null";
    }
}

/* (name, type, owner, values, bits of those that are not NULL, words). Values and bits are
 * addresses, good as long as the owner; None: there is none. */
static PyObject *column_of(const struct ArrowSchema *schema, struct ArrowArray *array)
{
    bool text = *schema->format == 'i', null = *schema->format == 'n';
    PyObject *words = text ? words_of(array->dictionary) : NULL;
    PyObject *values = address_of(null ? NULL : array->buffers[1]);
    PyObject *valid = address_of(null ? NULL : array->buffers[0]);
    PyObject *owner = values && valid && (words || !text) ? column_move(array) : NULL;
    PyObject *column = NULL;

    if (owner)
        column = Py_BuildValue("(ssOOOO)", schema->name, type_of(schema), owner, values, valid,
                               words ? words : Py_None);
    Py_XDECREF(owner);
    Py_XDECREF(values);
    Py_XDECREF(valid);
    Py_XDECREF(words);
    return column;
}

/* A stream whose answer has no rows gives no array, but still has columns. */
static PyObject *column_empty(const struct ArrowSchema *schema)
{
    return Py_BuildValue("(ssOOO[])", schema->name, type_of(schema), Py_None, Py_None, Py_None);
}

static PyObject *columns_of(const struct ArrowSchema *schema, struct ArrowArray *array)
{
    PyObject *list = PyList_New(0), *both;

    for (int64_t i = 0; list && i < schema->n_children; i++) {
        PyObject *column = array->release ? column_of(schema->children[i], array->children[i])
                                          : column_empty(schema->children[i]);

        if (!column || PyList_Append(list, column) < 0)
            Py_CLEAR(list);
        Py_XDECREF(column);
    }
    if (!list)
        return NULL;
    both = Py_BuildValue("(LO)", (long long)(array->release ? array->length : 0), list);
    Py_DECREF(list);
    return both;
}

PyObject *trace_columns(struct trace *t, PyObject *sql)
{
    struct ArrowArrayStream stream;
    struct ArrowSchema schema = { 0 };
    struct ArrowArray array = { 0 };
    PyObject *columns = NULL;

    if (fetch(t, sql, &stream) < 0)
        return NULL;
    if (stream.get_schema(&stream, &schema) == 0 && stream.get_next(&stream, &array) == 0)
        columns = columns_of(&schema, &array);
    else
        PyErr_NoMemory();
    if (array.release)
        array.release(&array);
    if (schema.release)
        schema.release(&schema);
    stream.release(&stream);
    return columns;
}

/* Texts of many numbers, right into an array of objects: in Python alone, or by way of a list, this
 * would be what a DataFrame of spans takes longest. */
PyObject *hex_numbers(PyObject *module, PyObject *args)
{
    static const char digits[] = "0123456789abcdef";
    unsigned long long from, to;
    const uint64_t *number;
    PyObject **object;
    Py_ssize_t n;
    int width;
    char text[64];

    (void)module;
    if (!PyArg_ParseTuple(args, "KKni:hex_numbers", &from, &to, &n, &width))
        return NULL;
    if (width < 16 || width > (int)sizeof(text))
        return PyErr_Format(PyExc_ValueError, "width must be from 16 to %zu", sizeof(text));
    number = (const uint64_t *)(uintptr_t)from;
    object = (PyObject **)(uintptr_t)to;
    memset(text, '0', sizeof(text));
    for (Py_ssize_t i = 0; i < n; i++) {
        uint64_t v = number[i];
        PyObject *s, *old = object[i];

        for (int d = width - 1; d >= width - 16; d--, v >>= 4)
            text[d] = digits[v & 15];
        s = PyUnicode_FromStringAndSize(text, width);
        if (!s)
            return NULL;
        object[i] = s;
        Py_XDECREF(old);
    }
    Py_RETURN_NONE;
}
