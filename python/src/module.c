/* module.c -- the module opmeter._opmeter: its state, its exception, and what all files use. */
#include "span.h"

#include <opmeter/opmeter_trace.h>
#include <string.h>

PyObject *raise_error(const struct state *s, const opm_error *err)
{
    const char *text = err->msg[0] ? err->msg : opm_status_text(err->code);
    PyObject *msg = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
    PyObject *code = PyLong_FromLong(err->code);
    PyObject *e = msg && code ? PyObject_CallFunctionObjArgs(s->error, msg, NULL) : NULL;

    if (e && PyObject_SetAttrString(e, "code", code) == 0 &&
        PyObject_SetAttrString(e, "message", msg) == 0)
        PyErr_SetObject(s->error, e);
    Py_XDECREF(e);
    Py_XDECREF(msg);
    Py_XDECREF(code);
    return NULL;
}

const char *text_of(PyObject *o, const char *what)
{
    Py_ssize_t len;
    const char *text;

    if (!PyUnicode_Check(o)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str, not %R", what, (PyObject *)Py_TYPE(o));
        return NULL;
    }
    text = PyUnicode_AsUTF8AndSize(o, &len);
    if (text && strlen(text) != (size_t)len) {
        PyErr_Format(PyExc_ValueError, "%s must not hold a NUL character: %R", what, o);
        return NULL;
    }
    return text;
}

PyObject *json_text(PyObject *value)
{
    PyObject *json, *name, *text = NULL;

    if (!value || value == Py_None || PyUnicode_Check(value)) {
        value = value ? value : Py_None;
        Py_INCREF(value);
        return value;
    }
    json = PyImport_ImportModule("json");
    name = json ? PyUnicode_InternFromString("dumps") : NULL;
    if (name)
        text = PyObject_CallMethodObjArgs(json, name, value, NULL);
    Py_XDECREF(name);
    Py_XDECREF(json);
    return text;
}

int layer_of(PyObject *name)
{
    static const char *const names[] = { [OPM_APP] = "app",
                                         [OPM_FRAMEWORK] = "framework",
                                         [OPM_RUNTIME] = "runtime",
                                         [OPM_HARDWARE] = "hardware" };
    const char *text;

    if (!name || name == Py_None)
        return OPM_APP;
    text = text_of(name, "layer");
    if (!text)
        return -1;
    for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    PyErr_Format(PyExc_ValueError,
                 "layer must be 'app', 'framework', 'runtime' or 'hardware', not %R", name);
    return -1;
}

PyObject *no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    PyErr_Format(PyExc_TypeError, "%R is made by functions of opmeter, not by calling it",
                 (PyObject *)type);
    return NULL;
}

int type_add(PyObject *module, PyObject **out, PyType_Spec *spec, const char *name)
{
    *out = PyType_FromSpec(spec);
    if (!*out)
        return -1;
    if (!name)
        return 0;
    Py_INCREF(*out);
    if (PyModule_AddObject(module, name, *out) == 0)
        return 0;
    Py_DECREF(*out);
    return -1;
}

/* Status codes as Error.EINVAL, ...: written once, in opmeter_error.h. */
static int error_codes(PyObject *error)
{
    static const struct {
        const char *name;
        int code;
    } codes[] = {
#define X(name, value, text) { #name, value },
        OPM_STATUS_MAP(X)
#undef X
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        PyObject *v = PyLong_FromLong(codes[i].code);

        if (!v || PyObject_SetAttrString(error, codes[i].name, v) < 0) {
            Py_XDECREF(v);
            return -1;
        }
        Py_DECREF(v);
    }
    return PyObject_SetAttrString(error, "code", Py_None);
}

static int error_add(PyObject *module)
{
    struct state *s = state_of(module);

    s->error = PyErr_NewExceptionWithDoc(
        "opmeter.Error",
        "A recording, trace or model could not be handled.\n\n"
        "message says what and which one; code is one of Error.EINVAL, Error.EFORMAT, ...",
        NULL, NULL);
    if (!s->error || error_codes(s->error) < 0)
        return -1;
    Py_INCREF(s->error);
    if (PyModule_AddObject(module, "Error", s->error) == 0)
        return 0;
    Py_DECREF(s->error);
    return -1;
}

static int module_exec(PyObject *module)
{
    struct state *s = state_of(module);

    s->spans = PyDict_New();
    if (!s->spans || error_add(module) < 0 || span_add(module) < 0 || recorder_add(module) < 0 ||
        object_add(module) < 0 || trace_add(module) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", opm_trace_version());
}

#define STATE_OBJECTS(X) \
    X(error)             \
    X(span_type) X(binder_type) X(queue_type) X(counter_type) X(track_type) X(trace_type) X(spans)

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct state *s = state_of(module);

#define X(object) Py_VISIT(s->object);
    STATE_OBJECTS(X)
#undef X
    return 0;
}

static int module_clear(PyObject *module)
{
    struct state *s = state_of(module);

    span_forget(s);
#define X(object) Py_CLEAR(s->object);
    STATE_OBJECTS(X)
#undef X
    return 0;
}

static void module_free(void *module)
{
    module_clear(module);
}

static PyModuleDef_Slot slots[] = { { Py_mod_exec, SLOT(module_exec) }, { 0, NULL } };

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "opmeter._opmeter",
    .m_doc = "The C part of opmeter: recording, traces.",
    .m_size = sizeof(struct state),
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__opmeter(void);

PyMODINIT_FUNC PyInit__opmeter(void)
{
    return PyModuleDef_Init(&definition);
}
