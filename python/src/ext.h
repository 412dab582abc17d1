/* ext.h -- what the files of the extension share.
 *
 * The extension is built once for every CPython from 3.9 on (stable ABI), and knows of opmeter only
 * the public headers. It has no global objects: whatever a type needs hangs on the module's state,
 * to which each object keeps a reference through the module. All functions need the GIL unless a
 * comment says otherwise; work that may take long gives it up. */
#ifndef PYTHON_EXT_H
#define PYTHON_EXT_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <opmeter/opmeter.h>
#include <opmeter/opmeter_error.h>
#include <stdbool.h>

/* Part of the stable ABI since 3.10, and there without change since 3.7. */
#if Py_LIMITED_API < 0x030a0000
#define METH_FASTCALL 0x0080
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *out_len);
#endif

/* METH_FASTCALL and METH_KEYWORDS functions have their own types; the table of methods has one. */
#define METHOD(function) ((PyCFunction)(void (*)(void))(function))
#define SLOT(function) ((void *)(function))

struct state {
    PyObject *error; /* opmeter.Error */
    PyObject *span_type;
    PyObject *binder_type;
    PyObject *queue_type;
    PyObject *counter_type;
    PyObject *track_type;
    PyObject *trace_type;
    PyObject *spans;        /* dict: name, or tuple of name, category, layer -> Span */
    PyObject *last_name;    /* asked for last, or NULL */
    struct span *last_span; /* that the dict has for it */
};

static inline struct state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

/* Raise opmeter.Error from a failed call; returns NULL. */
PyObject *raise_error(const struct state *s, const opm_error *err);

/* A layer from its name; -1 and ValueError. NULL: the application's. */
int layer_of(PyObject *name);

/* UTF-8 of a str, without NUL inside; NULL and an exception. Valid as long as the str. what: the
 * name of the argument, for the message. */
const char *text_of(PyObject *o, const char *what);

/* A dict, list, ... as JSON in a str; a str as it is, None as None. New reference. */
PyObject *json_text(PyObject *value);

/* Each file adds its types and functions to the module; 0, or -1 and an exception. */
int recorder_add(PyObject *module);
int span_add(PyObject *module);
int object_add(PyObject *module);
int trace_add(PyObject *module);

/* tp_new of types whose objects only functions make: raises TypeError. */
PyObject *no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Of this process's recording; another number after each start and fork. */
extern uint32_t recorder_generation;
/* Tell the recording the name that `threading` has for this thread; returns the generation. */
uint32_t recorder_name_thread(void);

/* PyType_FromSpec(), stored in *out and made a name of the module if `name` is given. */
int type_add(PyObject *module, PyObject **out, PyType_Spec *spec, const char *name);

#endif
