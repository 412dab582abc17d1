/* trace.c -- the type Trace: opening, asking, exporting. See trace.h. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

bool trace_lock(struct trace *t)
{
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(t->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
    if (t->trace)
        return true;
    PyThread_release_lock(t->lock);
    PyErr_SetString(PyExc_ValueError, "the trace is closed");
    return false;
}

void trace_unlock(struct trace *t)
{
    PyThread_release_lock(t->lock);
}

static void trace_dealloc(struct trace *t)
{
    PyTypeObject *type = Py_TYPE(t);

    PyObject_GC_UnTrack(t);
    if (t->trace)
        opm_trace_close(t->trace);
    if (t->lock)
        PyThread_free_lock(t->lock);
    Py_XDECREF(t->module);
    PyObject_GC_Del(t);
    Py_DECREF(type);
}

static int trace_traverse(struct trace *t, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(t));
    Py_VISIT(t->module);
    return 0;
}

static int trace_clear(struct trace *t)
{
    Py_CLEAR(t->module);
    return 0;
}

static PyObject *trace_close(struct trace *t, PyObject *unused)
{
    opm_trace *trace;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(t->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
    trace = t->trace; /* with the GIL: see trace_interrupt() */
    t->trace = NULL;
    Py_BEGIN_ALLOW_THREADS
    opm_trace_close(trace);
    Py_END_ALLOW_THREADS
    PyThread_release_lock(t->lock);
    Py_RETURN_NONE;
}

static PyObject *trace_query(struct trace *t, PyObject *sql)
{
    const char *text = text_of(sql, "sql");

    return text ? trace_rows(t, text) : NULL;
}

#define SIGNALS_EVERY_NS 100000000 /* the GIL is not for free */

/* A long call of the library, without the GIL: Ctrl-C ends it. */
struct progress {
    PyThreadState *released;
    unsigned long thread;
    int64_t next_ns;
    PyObject *caught[3]; /* the exception that a signal's handler raised */
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int progress_signals(void *user, uint64_t done, uint64_t total)
{
    struct progress *p = user;
    int interrupted;

    (void)done;
    (void)total;
    if (PyThread_get_thread_ident() != p->thread || now_ns() < p->next_ns)
        return 0;
    PyEval_RestoreThread(p->released);
    interrupted = PyErr_CheckSignals() < 0;
    if (interrupted)
        PyErr_Fetch(&p->caught[0], &p->caught[1], &p->caught[2]);
    p->released = PyEval_SaveThread();
    p->next_ns = now_ns() + SIGNALS_EVERY_NS;
    return interrupted;
}

static void progress_begin(struct progress *p)
{
    *p = (struct progress){ .thread = PyThread_get_thread_ident(),
                            .next_ns = now_ns() + SIGNALS_EVERY_NS };
    p->released = PyEval_SaveThread();
}

static void progress_end(struct progress *p)
{
    PyEval_RestoreThread(p->released);
}

/* The exception that a signal has raised, or else that of the failed call. */
static PyObject *raise_progress(const struct state *s, const opm_error *err, struct progress *p)
{
    if (!p->caught[0])
        return raise_error(s, err);
    PyErr_Restore(p->caught[0], p->caught[1], p->caught[2]);
    return NULL;
}

static PyObject *trace_export(struct trace *t, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "format", "path", "table", NULL };
    opm_export_options o = OPM_EXPORT_OPTIONS_INIT;
    opm_error err = { 0 };
    const char *format;
    struct progress progress;
    PyObject *path = NULL;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO&|z:export", names, &format,
                                     PyUnicode_FSConverter, &path, &o.table))
        return NULL;
    if (!trace_lock(t)) {
        Py_DECREF(path);
        return NULL;
    }
    o.progress = progress_signals;
    o.user = &progress;
    const char *to = PyBytes_AsString(path);

    progress_begin(&progress);
    rc = opm_trace_export(t->trace, format, to, &o, &err);
    progress_end(&progress);
    trace_unlock(t);
    Py_DECREF(path);
    if (rc < 0)
        return raise_progress(state_of(t->module), &err, &progress);
    Py_RETURN_NONE;
}

static PyObject *trace_interrupt(struct trace *t, PyObject *unused)
{
    (void)unused;
    /* Not locked: the one who holds the lock is to be disturbed. Closing takes the handle away with
     * the GIL, so it cannot go meanwhile. */
    if (t->trace)
        opm_trace_interrupt(t->trace);
    Py_RETURN_NONE;
}

static PyObject *trace_closed(struct trace *t, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!t->trace);
}

static PyMethodDef trace_methods[] = {
    { "query", METHOD(trace_query), METH_O,
      "query(sql)\n--\n\nNames of the columns and a list of rows, as tuples." },
    { "arrow", METHOD(trace_arrow), METH_O,
      "arrow(sql)\n--\n\nThe answer as a capsule of an Arrow C stream." },
    { "columns", METHOD(trace_columns), METH_O,
      "columns(sql)\n--\n\nNumber of rows, and a list of (name, type, owner, values, valid, "
      "words); values and valid are addresses, good as long as the owner." },
    { "export", METHOD(trace_export), METH_VARARGS | METH_KEYWORDS,
      "export(format, path, table=None)\n--\n\nWrite the trace in another format." },
    { "interrupt", METHOD(trace_interrupt), METH_NOARGS,
      "Stop a query that another thread is running." },
    { "close", METHOD(trace_close), METH_NOARGS, "Free its memory. More than once is fine." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef trace_fields[] = {
    { "closed", (getter)trace_closed, NULL, "Has close() been called?", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot trace_slots[] = {
    { Py_tp_doc, "An open trace. Made by open_trace()." },
    { Py_tp_new, SLOT(no_new) },
    { Py_tp_dealloc, SLOT(trace_dealloc) },
    { Py_tp_traverse, SLOT(trace_traverse) },
    { Py_tp_clear, SLOT(trace_clear) },
    { Py_tp_methods, trace_methods },
    { Py_tp_getset, trace_fields },
    { 0, NULL },
};

static PyType_Spec trace_spec = { .name = "opmeter._opmeter.Trace",
                                  .basicsize = sizeof(struct trace),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                  .slots = trace_slots };

static struct trace *trace_new(PyObject *module)
{
    struct trace *t = PyObject_GC_New(struct trace, (PyTypeObject *)state_of(module)->trace_type);

    if (!t)
        return NULL;
    Py_INCREF(module);
    t->module = module;
    t->trace = NULL;
    t->lock = PyThread_allocate_lock();
    PyObject_GC_Track(t);
    if (!t->lock) {
        Py_DECREF(t);
        PyErr_NoMemory();
        return NULL;
    }
    return t;
}

/* ---- opening ---- */

/* An array of C strings, of objects that `keep` keeps. */
struct strings {
    PyObject *keep;
    const char **text;
    size_t n;
};

static void strings_release(struct strings *s)
{
    Py_XDECREF(s->keep);
    free(s->text);
}

/* Paths as the file system has them. */
static int strings_paths(struct strings *s, PyObject *paths)
{
    Py_ssize_t n = PySequence_Size(paths);

    if (n < 0)
        return -1;
    s->keep = PyList_New(0);
    s->text = calloc((size_t)n + 1, sizeof(*s->text));
    if (!s->keep || !s->text) {
        PyErr_NoMemory();
        return -1;
    }
    for (; s->n < (size_t)n; s->n++) {
        PyObject *item = PySequence_GetItem(paths, (Py_ssize_t)s->n), *bytes = NULL;
        int ok = item && PyUnicode_FSConverter(item, &bytes) && PyList_Append(s->keep, bytes) == 0;

        Py_XDECREF(item);
        Py_XDECREF(bytes);
        if (!ok)
            return -1;
        s->text[s->n] = PyBytes_AsString(bytes); /* the list has it */
    }
    return 0;
}

/* key=value of a dict; ends with a NULL. */
static int strings_facts(struct strings *s, PyObject *dict)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;

    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "meta must be a dict");
        return -1;
    }
    s->keep = PyList_New(0);
    s->text = calloc((size_t)PyDict_Size(dict) + 1, sizeof(*s->text));
    if (!s->keep || !s->text) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(dict, &at, &key, &value)) {
        PyObject *both = PyUnicode_FromFormat("%S=%S", key, value);
        const char *text = both ? text_of(both, "meta") : NULL;
        int ok = text && PyList_Append(s->keep, both) == 0;

        Py_XDECREF(both);
        if (!ok)
            return -1;
        s->text[s->n++] = text;
    }
    return 0;
}

static PyObject *open_strings(PyObject *module, const struct strings *paths, opm_open_options *o)
{
    struct trace *t = trace_new(module);
    struct progress progress;
    opm_trace *trace = NULL;
    opm_error err = { 0 };
    int rc;

    if (!t)
        return NULL;
    o->progress = progress_signals;
    o->user = &progress;
    progress_begin(&progress);
    rc = opm_trace_open(&trace, paths->text, paths->n, o, &err);
    progress_end(&progress);
    if (rc < 0) {
        Py_DECREF(t);
        return raise_progress(state_of(module), &err, &progress);
    }
    t->trace = trace;
    return (PyObject *)t;
}

/* A limit, for "O&": the plain formats take what does not fit for another number, or for none. */
static int take_limit(PyObject *value, void *out)
{
    PyObject *number = PyNumber_Index(value);
    unsigned long long limit = number ? PyLong_AsUnsignedLongLong(number) : 0;

    Py_XDECREF(number);
    if (PyErr_Occurred())
        return 0;
    *(uint64_t *)out = limit;
    return 1;
}

static PyObject *open_trace(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "paths",      "format",      "max_bytes", "meta",
                             "max_memory", "max_seconds", "captures",  NULL };
    opm_open_options o = OPM_OPEN_OPTIONS_INIT;
    struct strings paths = { 0 }, facts = { 0 }, captures = { 0 };
    PyObject *list, *meta = Py_None, *graphs = Py_None, *t = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|zO&OO&O&O:open_trace", names, &list,
                                     &o.format, take_limit, &o.max_bytes, &meta, take_limit,
                                     &o.max_memory, take_limit, &o.max_seconds, &graphs))
        return NULL;
    if (strings_paths(&paths, list) == 0 && (meta == Py_None || strings_facts(&facts, meta) == 0) &&
        (graphs == Py_None || strings_paths(&captures, graphs) == 0)) {
        o.meta = facts.text;
        o.captures = captures.text;
        o.ncaptures = captures.n;
        t = open_strings(module, &paths, &o);
    }
    strings_release(&paths);
    strings_release(&facts);
    strings_release(&captures);
    return t;
}

/* ---- formats ---- */

static PyObject *format_list(const opm_format *f)
{
    PyObject *list = PyList_New(0);

    for (; list && f->name; f++) {
        PyObject *row = Py_BuildValue("(sss)", f->name, f->extension, f->doc);

        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *export_formats(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return format_list(opm_export_formats());
}

static PyObject *import_formats(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return format_list(opm_import_formats());
}

static PyMethodDef functions[] = {
    { "open_trace", METHOD(open_trace), METH_VARARGS | METH_KEYWORDS,
      "open_trace(paths, format=None, max_bytes=0, meta=None, max_memory=0, max_seconds=0)\n--\n\n"
      "Open traces as one. format: name of an importer, instead of detecting it." },
    { "hex_numbers", METHOD(hex_numbers), METH_VARARGS,
      "hex_numbers(from, to, n, width)\n--\n\n64-bit numbers at an address as hexadecimal texts, "
      "into an array of objects at another." },
    { "export_formats", METHOD(export_formats), METH_NOARGS,
      "Formats that can be written: (name, extension, description)." },
    { "import_formats", METHOD(import_formats), METH_NOARGS,
      "Formats that can be read: (name, extension, description)." },
    { NULL, NULL, 0, NULL },
};

int trace_add(PyObject *module)
{
    struct state *s = state_of(module);

    if (type_add(module, &s->trace_type, &trace_spec, "Trace") < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
