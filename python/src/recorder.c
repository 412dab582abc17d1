/* recorder.c -- starting and stopping, and what a recording is told besides plain spans. */
#include "span.h"

#include <string.h>

uint32_t recorder_generation = 1;

/* Threads that Python did not start have made-up names there, or none. */
uint32_t recorder_name_thread(void)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *threading = PyDict_GetItemString(modules, "threading"), *thread, *name = NULL;
    const char *text = NULL;

    thread = threading ? PyObject_CallMethod(threading, "current_thread", NULL) : NULL;
    if (thread)
        name = PyObject_GetAttrString(thread, "name");
    if (name && PyUnicode_Check(name))
        text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (text && strncmp(text, "Dummy-", 6) != 0)
        opm_thread_name(text);
    Py_XDECREF(name);
    Py_XDECREF(thread);
    PyErr_Clear();
    return recorder_generation;
}

/* A path as str or PathLike; NULL and no exception for None. New reference to bytes. */
static PyObject *path_bytes(PyObject *path)
{
    PyObject *bytes = NULL;

    if (path && path != Py_None && !PyUnicode_FSConverter(path, &bytes))
        return NULL;
    return bytes;
}

static int overflow_of(const char *text)
{
    if (!text || strcmp(text, "block") == 0)
        return OPM_OVERFLOW_BLOCK;
    if (strcmp(text, "drop") == 0)
        return OPM_OVERFLOW_DROP;
    PyErr_Format(PyExc_ValueError, "overflow must be 'block' or 'drop', not '%s'", text);
    return -1;
}

static PyObject *start(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "path", "categories", "level", "buffer_mb", "overflow", NULL };
    opm_options o = OPM_OPTIONS_INIT;
    opm_error err = { 0 };
    PyObject *path = NULL, *bytes;
    const char *overflow = NULL;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OziIz:start", names, &path, &o.categories,
                                     &o.level, &o.buffer_mb, &overflow))
        return NULL;
    if (o.level < -1 || o.level > 3) {
        PyErr_Format(PyExc_ValueError, "level must be 0, 1, 2 or 3, not %d", (int)o.level);
        return NULL;
    }
    o.overflow = overflow_of(overflow);
    bytes = o.overflow < 0 ? NULL : path_bytes(path);
    if (PyErr_Occurred())
        return NULL;
    o.path = bytes ? PyBytes_AsString(bytes) : NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = opm_start(&o, &err);
    Py_END_ALLOW_THREADS
    Py_XDECREF(bytes);
    if (rc < 0)
        return raise_error(state_of(module), &err);
    if (rc == 0)
        recorder_generation++;
    return PyBool_FromLong(rc == 0);
}

static PyObject *stop(PyObject *module, PyObject *unused)
{
    opm_error err = { 0 };
    int rc;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    rc = opm_stop(&err);
    Py_END_ALLOW_THREADS
    if (rc < 0)
        return raise_error(state_of(module), &err);
    Py_RETURN_NONE;
}

static PyObject *recording_pause(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    opm_pause();
    Py_RETURN_NONE;
}

static PyObject *recording_resume(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    opm_resume();
    Py_RETURN_NONE;
}

static PyObject *recording(PyObject *module, PyObject *unused)
{
    opm_recorder_stats stats;

    (void)module;
    (void)unused;
    opm_stats(&stats);
    return PyBool_FromLong(stats.recording);
}

static PyObject *enabled(PyObject *module, PyObject *args)
{
    PyObject *name = NULL;
    int layer;

    (void)module;
    if (!PyArg_ParseTuple(args, "|O:enabled", &name))
        return NULL;
    layer = layer_of(name);
    return layer < 0 ? NULL : PyBool_FromLong(opm_on((enum opm_layer)layer));
}

static PyObject *stats(PyObject *module, PyObject *unused)
{
    opm_recorder_stats s;

    (void)module;
    (void)unused;
    opm_stats(&s);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:O,s:i}", "spans", (unsigned long long)s.spans,
                         "lost", (unsigned long long)s.lost, "bytes", (unsigned long long)s.bytes,
                         "threads", (unsigned long long)s.threads, "unbalanced",
                         (unsigned long long)s.unbalanced, "recording",
                         s.recording ? Py_True : Py_False, "write_errno", (int)s.write_errno);
}

static PyObject *path(PyObject *module, PyObject *unused)
{
    const char *p = opm_path();

    (void)module;
    (void)unused;
    if (!*p)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(p);
}

static PyObject *meta(PyObject *module, PyObject *args)
{
    PyObject *key, *value;
    const char *k, *v;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO:meta", &key, &value))
        return NULL;
    k = text_of(key, "key");
    value = k ? PyObject_Str(value) : NULL;
    v = value ? text_of(value, "value") : NULL;
    if (v)
        opm_meta(k, v);
    Py_XDECREF(value);
    if (!v)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *thread_name(PyObject *module, PyObject *name)
{
    const char *text = text_of(name, "name");

    (void)module;
    if (!text)
        return NULL;
    opm_thread_name(text);
    Py_RETURN_NONE;
}

/* In the child of a fork(): its recording is another one. */
static PyObject *forked(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    recorder_generation++;
    Py_RETURN_NONE;
}

/* ---- steps, records, activities ---- */

static PyObject *step(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "num", "model", "warm_up", NULL };
    PyObject *model = NULL;
    long long num;
    struct span *span;
    int warm_up = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L|Op:step", names, &num, &model, &warm_up))
        return NULL;
    model = model && model != Py_None ? Py_BuildValue("O", model) : PyUnicode_FromString("");
    if (!model)
        return NULL;
    span = span_new(state_of(module), SPAN_STEP, model, NULL, OPM_APP);
    Py_DECREF(model);
    if (span) {
        span->step = num;
        span->flags = warm_up ? OPM_WARMUP : OPM_MEASURED;
    }
    return (PyObject *)span;
}

static PyObject *phase(PyObject *module, PyObject *name)
{
    static const char *const names[] = { [OPM_PHASE_FORWARD] = "forward",
                                         [OPM_PHASE_BACKWARD] = "backward",
                                         [OPM_PHASE_UPDATE] = "update" };
    const char *text = NULL;
    int p = OPM_PHASE_NONE;

    (void)module;
    if (name != Py_None) {
        text = text_of(name, "phase");
        if (!text)
            return NULL;
        p = OPM_PHASE_UPDATE;
        while (p > OPM_PHASE_NONE && strcmp(names[p], text) != 0)
            p--;
        if (p == OPM_PHASE_NONE) {
            PyErr_Format(PyExc_ValueError,
                         "phase must be 'forward', 'backward', 'update' or None, not %R", name);
            return NULL;
        }
    }
    opm_step_phase((enum opm_step_phase)p);
    Py_RETURN_NONE;
}

static PyObject *record(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "label", "warm_up", NULL };
    PyObject *label;
    struct span *span;
    int warm_up = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:record", names, &label, &warm_up))
        return NULL;
    span = span_new(state_of(module), SPAN_RECORD, label, NULL, OPM_APP);
    if (span)
        span->flags = warm_up ? OPM_WARMUP : OPM_MEASURED;
    return (PyObject *)span;
}

/* Text as it is, anything else as JSON, in UTF-8; None: NULL. */
static PyObject *meta_bytes(PyObject *value)
{
    PyObject *text = json_text(value), *bytes = NULL;

    if (text && text != Py_None)
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    Py_XDECREF(text);
    return bytes;
}

static PyObject *activity(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "step", "meta", NULL };
    PyObject *name, *about = NULL, *json;
    long long num = -1;
    struct span *span;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|LO:activity", names, &name, &num, &about))
        return NULL;
    json = meta_bytes(about);
    if (PyErr_Occurred())
        return NULL;
    span = span_new(state_of(module), SPAN_ACTIVITY, name, NULL, OPM_APP);
    if (span) {
        span->step = num;
        span->meta = json;
    } else {
        Py_XDECREF(json);
    }
    return (PyObject *)span;
}

static PyMethodDef functions[] = {
    { "start", METHOD(start), METH_VARARGS | METH_KEYWORDS,
      "start(path=None, categories=None, level=-1, buffer_mb=0, overflow='block')\n--\n\n"
      "Start recording. True: started. False: a recording was under way and goes on.\n"
      "Each start needs its own stop()." },
    { "stop", METHOD(stop), METH_NOARGS, "Write out everything and close the file." },
    { "pause", METHOD(recording_pause), METH_NOARGS, "Leave out what happens until resume()." },
    { "resume", METHOD(recording_resume), METH_NOARGS, "Go on after pause()." },
    { "recording", METHOD(recording), METH_NOARGS, "Is a recording under way?" },
    { "enabled", METHOD(enabled), METH_VARARGS,
      "enabled(layer='app')\n--\n\nWould a span of this layer be recorded now?" },
    { "stats", METHOD(stats), METH_NOARGS,
      "Counts of the recording: spans, lost, bytes, threads, unbalanced, ..." },
    { "path", METHOD(path), METH_NOARGS, "The file being written, or None." },
    { "meta", METHOD(meta), METH_VARARGS,
      "meta(key, value)\n--\n\nA fact about the run: model, options, versions." },
    { "thread_name", METHOD(thread_name), METH_O, "Name the calling thread in the trace." },
    { "_forked", METHOD(forked), METH_NOARGS, NULL },
    { "step", METHOD(step), METH_VARARGS | METH_KEYWORDS,
      "step(num, model='', warm_up=False)\n--\n\nOne step or inference: `with step(i): ...`." },
    { "phase", METHOD(phase), METH_O,
      "Inside a step: 'forward', 'backward' or 'update' begins here; None: none of them." },
    { "record", METHOD(record), METH_VARARGS | METH_KEYWORDS,
      "record(label, warm_up=False)\n--\n\nA labelled region of the run." },
    { "activity", METHOD(activity), METH_VARARGS | METH_KEYWORDS,
      "activity(name, step=-1, meta=None)\n--\n\n"
      "Something the application does, for a step; it may end on another thread." },
    { NULL, NULL, 0, NULL },
};

int recorder_add(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
