/* session.c -- the module opmeter._run: sessions that run models.
 *
 * Apart from opmeter._opmeter, so that recording and reading do not load an engine. Arrays come as
 * addresses: the buffer protocol is not part of the stable ABI that this is built for; session.py
 * has the arrays and keeps them alive during the call. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <opmeter/opmeter_run.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define METHOD(function) ((PyCFunction)(void (*)(void))(function))
#define SLOT(function) ((void *)(function))
#define SIGNALS_EVERY_NS 50000000

struct state {
    PyObject *error; /* opmeter.Error */
    PyObject *session_type;
};

/* One thread at a time, as opm_session wants it: others wait for the lock. */
struct session {
    PyObject_HEAD PyObject *module;
    opm_session *session; /* NULL: closed */
    PyThread_type_lock lock;
};

static struct state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static PyObject *raise_error(const struct state *s, const opm_error *err)
{
    PyObject *msg =
        PyUnicode_DecodeUTF8(err->msg, (Py_ssize_t)strlen(err->msg), "backslashreplace");
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

static bool session_lock(struct session *s)
{
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(s->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
    if (s->session)
        return true;
    PyThread_release_lock(s->lock);
    PyErr_SetString(PyExc_ValueError, "the session is closed");
    return false;
}

static void session_unlock(struct session *s)
{
    PyThread_release_lock(s->lock);
}

static void session_dealloc(struct session *s)
{
    PyTypeObject *type = Py_TYPE(s);

    PyObject_GC_UnTrack(s);
    opm_session_close(s->session);
    if (s->lock)
        PyThread_free_lock(s->lock);
    Py_XDECREF(s->module);
    PyObject_GC_Del(s);
    Py_DECREF(type);
}

static int session_traverse(struct session *s, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(s));
    Py_VISIT(s->module);
    return 0;
}

static int session_clear(struct session *s)
{
    Py_CLEAR(s->module);
    return 0;
}

static PyObject *session_close(struct session *s, PyObject *unused)
{
    opm_session *session;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    PyThread_acquire_lock(s->lock, WAIT_LOCK);
    session = s->session;
    s->session = NULL;
    opm_session_close(session);
    PyThread_release_lock(s->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *session_flush(struct session *s, PyObject *unused)
{
    opm_error err = { 0 };
    int rc;

    (void)unused;
    if (!session_lock(s))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = opm_session_flush(s->session, &err);
    Py_END_ALLOW_THREADS
    session_unlock(s);
    if (rc < 0)
        return raise_error(state_of(s->module), &err);
    Py_RETURN_NONE;
}

/* ---- what the model declares ---- */

/* Sizes; where they are open, the name or None. None: no shape was declared. */
static PyObject *shape_of(const opm_value *v)
{
    PyObject *shape;

    if (v->rank < 0)
        Py_RETURN_NONE;
    shape = PyTuple_New(v->rank);
    for (int i = 0; shape && i < v->rank; i++) {
        PyObject *dim =
            v->dims[i] >= 0 ? PyLong_FromLongLong(v->dims[i]) : Py_BuildValue("z", v->dim_names[i]);

        if (!dim || PyTuple_SetItem(shape, i, dim) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *values_of(struct session *s, size_t n,
                           int (*get)(const opm_session *, size_t, opm_value *, opm_error *))
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *row = NULL, *shape = NULL;
        opm_error err = { 0 };
        opm_value v;

        if (get(s->session, i, &v, &err) < 0)
            raise_error(state_of(s->module), &err);
        else
            shape = shape_of(&v);
        if (shape)
            row = Py_BuildValue("(ssiN)", v.name, v.dtype, v.bits, shape);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *session_describe(struct session *s, PyObject *unused)
{
    PyObject *in = NULL, *out = NULL, *all = NULL;

    (void)unused;
    if (!session_lock(s))
        return NULL;
    in = values_of(s, opm_session_ninputs(s->session), opm_session_input);
    if (in)
        out = values_of(s, opm_session_noutputs(s->session), opm_session_output);
    if (out)
        all = Py_BuildValue("{s:O,s:O,s:s,s:s,s:s,s:i}", "inputs", in, "outputs", out, "model",
                            opm_session_model(s->session), "engine", opm_session_engine(s->session),
                            "version", opm_session_engine_version(s->session), "threads",
                            opm_session_threads(s->session));
    Py_XDECREF(in);
    Py_XDECREF(out);
    session_unlock(s);
    return all;
}

/* ---- arrays ---- */

/* A tuple (dtype, shape, address, bytes); None: whatever suits. The dtype is borrowed. */
static int array_of(PyObject *o, opm_array *a)
{
    unsigned long long address, bytes;
    Py_ssize_t rank;
    PyObject *shape;

    *a = (opm_array){ .rank = -1 };
    if (o == Py_None)
        return 0;
    if (!PyArg_ParseTuple(o, "zO!KK", &a->dtype, &PyTuple_Type, &shape, &address, &bytes))
        return -1;
    rank = PyTuple_Size(shape);
    if (rank > OPM_RANK_MAX) {
        PyErr_Format(PyExc_ValueError, "an array has %zd dimensions; %d are possible", rank,
                     OPM_RANK_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < rank; i++) {
        a->dims[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (a->dims[i] == -1 && PyErr_Occurred())
            return -1;
    }
    a->rank = (int32_t)rank;
    a->data = (void *)(uintptr_t)address;
    a->bytes = (size_t)bytes;
    return 0;
}

/* Strings are pointers, which no buffer of Python's holds. */
static int refuse_strings(const opm_session *s, size_t i, const opm_array *a)
{
    opm_value v = { 0 };
    const char *dtype = a->dtype;

    if (!dtype && opm_session_input(s, i, &v, NULL) == 0)
        dtype = v.dtype;
    if (!a->data || !dtype || strcmp(dtype, "string") != 0)
        return 0;
    PyErr_SetString(PyExc_TypeError, "strings cannot be given from Python; opmeter run reads them "
                                     "from .npy files");
    return -1;
}

struct arrays {
    opm_array *in, *out; /* in NULL: everything is to be made up */
    size_t nin, nout;
};

static void arrays_release(struct arrays *a)
{
    free(a->in);
    free(a->out);
}

static int arrays_init(struct arrays *a, PyObject *inputs, const opm_session *s)
{
    a->nout = opm_session_noutputs(s);
    a->out = calloc(a->nout + 1, sizeof(*a->out));
    if (inputs != Py_None) {
        Py_ssize_t n = PyList_Check(inputs) ? PyList_Size(inputs) : -1;

        if (n < 0) {
            PyErr_SetString(PyExc_TypeError, "inputs must be a list");
            return -1;
        }
        a->nin = (size_t)n;
        a->in = calloc(a->nin + 1, sizeof(*a->in));
    }
    if (!a->out || (inputs != Py_None && !a->in)) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < a->nin; i++)
        if (array_of(PyList_GetItem(inputs, (Py_ssize_t)i), &a->in[i]) < 0 ||
            refuse_strings(s, i, &a->in[i]) < 0)
            return -1;
    return 0;
}

/* (dtype, shape, bytearray) of each output: copies, as the session's own are short-lived. Strings
 * have no bytes. */
static PyObject *outputs_of(const struct arrays *a)
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && i < a->nout; i++) {
        const opm_array *out = &a->out[i];
        opm_value v = { .rank = out->rank };
        PyObject *row = NULL, *shape, *bytes;
        bool text = out->dtype && strcmp(out->dtype, "string") == 0;

        memcpy(v.dims, out->dims, sizeof(v.dims));
        shape = shape_of(&v);
        bytes = PyByteArray_FromStringAndSize(text ? NULL : out->data,
                                              text ? 0 : (Py_ssize_t)out->bytes);
        if (shape && bytes)
            row = Py_BuildValue("(sOO)", out->dtype, shape, bytes);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
        Py_XDECREF(shape);
        Py_XDECREF(bytes);
    }
    return list;
}

/* ---- running ---- */

static PyObject *session_run(struct session *s, PyObject *inputs)
{
    struct arrays a = { 0 };
    PyObject *outputs = NULL;
    opm_error err = { 0 };
    int rc;

    if (!session_lock(s))
        return NULL;
    if (arrays_init(&a, inputs, s->session) == 0) {
        Py_BEGIN_ALLOW_THREADS
        rc = opm_session_run(s->session, a.in, a.nin, a.out, a.nout, &err);
        Py_END_ALLOW_THREADS
        outputs = rc < 0 ? raise_error(state_of(s->module), &err) : outputs_of(&a);
    }
    session_unlock(s);
    arrays_release(&a);
    return outputs;
}

/* Ctrl-C ends a long measurement. */
struct watch {
    int64_t next_ns;
    PyObject *caught[3];
};

static int watch_signals(void *user, uint64_t done, uint64_t total)
{
    struct watch *w = user;
    struct timespec ts;
    int64_t now;
    PyGILState_STATE gil;
    int interrupted;

    (void)done;
    (void)total;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    now = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
    if (now < w->next_ns)
        return 0;
    w->next_ns = now + SIGNALS_EVERY_NS;
    gil = PyGILState_Ensure();
    interrupted = PyErr_CheckSignals() < 0;
    if (interrupted)
        PyErr_Fetch(&w->caught[0], &w->caught[1], &w->caught[2]);
    PyGILState_Release(gil);
    return interrupted;
}

static PyObject *latency_of(const opm_session *s, enum opm_iterations which)
{
    opm_latency latency, *l = &latency;

    if (opm_session_latency(s, which, l, NULL) < 0 || !l->n)
        Py_RETURN_NONE;
    return Py_BuildValue("{s:K,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "count",
                         (unsigned long long)l->n, "min", l->min, "mean", l->mean, "median",
                         l->median, "p90", l->p90, "p95", l->p95, "p97", l->p97, "p99", l->p99,
                         "p99.9", l->p999, "max", l->max);
}

static PyObject *measured_of(const opm_session *s, const opm_measured *m)
{
    return Py_BuildValue("{s:N,s:N,s:K,s:d,s:d,s:d,s:L}", "metered",
                         latency_of(s, OPM_ITERATIONS_METERED), "bare",
                         latency_of(s, OPM_ITERATIONS_BARE), "warmup",
                         (unsigned long long)m->warmup, "cost_ns", m->cost_ns, "cost_error_ns",
                         m->cost_error_ns, "seconds", m->seconds, "batch", (long long)m->batch);
}

static PyObject *session_measure(struct session *s, PyObject *args)
{
    opm_measure_options o = OPM_MEASURE_OPTIONS_INIT;
    opm_measured m = { .size = sizeof(m) };
    const char *iterations, *warmup;
    struct watch watch = { 0, { NULL, NULL, NULL } };
    struct arrays a = { 0 };
    PyObject *inputs, *outputs, *result = NULL;
    opm_error err = { 0 };
    int receipt, rc;

    if (!PyArg_ParseTuple(args, "Ossp:measure", &inputs, &iterations, &warmup, &receipt))
        return NULL;
    if (opm_amount_parse(iterations, &o.iterations, &err) < 0 ||
        opm_amount_parse(warmup, &o.warmup, &err) < 0)
        return PyErr_Format(PyExc_ValueError, "%s", err.msg);
    o.receipt = receipt;
    o.progress = watch_signals;
    o.user = &watch;
    if (!session_lock(s))
        return NULL;
    if (arrays_init(&a, inputs, s->session) == 0) {
        Py_BEGIN_ALLOW_THREADS
        rc = opm_session_measure(s->session, a.in, a.nin, &o, a.out, a.nout, &m, &err);
        Py_END_ALLOW_THREADS
        if (rc == 0) {
            outputs = outputs_of(&a);
            result = outputs ? Py_BuildValue("(NN)", outputs, measured_of(s->session, &m)) : NULL;
        } else if (watch.caught[0])
            PyErr_Restore(watch.caught[0], watch.caught[1], watch.caught[2]);
        else
            raise_error(state_of(s->module), &err);
    }
    session_unlock(s);
    arrays_release(&a);
    return result;
}

static PyObject *session_random(struct session *s, PyObject *args)
{
    unsigned long long seed;
    PyObject *array;
    opm_array a;
    opm_error err = { 0 };
    Py_ssize_t i;
    int rc;

    if (!PyArg_ParseTuple(args, "nKO!:random", &i, &seed, &PyTuple_Type, &array) ||
        array_of(array, &a) < 0 || !session_lock(s))
        return NULL;
    if (refuse_strings(s->session, (size_t)i, &a) < 0) {
        session_unlock(s);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    rc = opm_session_random(s->session, (size_t)i, seed, &a, &err);
    Py_END_ALLOW_THREADS
    session_unlock(s);
    if (rc < 0)
        return raise_error(state_of(s->module), &err);
    Py_RETURN_NONE;
}

static PyObject *session_closed(struct session *s, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!s->session);
}

static PyMethodDef session_methods[] = {
    { "describe", METHOD(session_describe), METH_NOARGS,
      "Inputs and outputs as (name, dtype, bits, shape), and what runs the model." },
    { "run", METHOD(session_run), METH_O,
      "run(inputs)\n--\n\nRun once; a list of (dtype, shape, address, bytes) or None for each "
      "input. Gives (dtype, shape, bytearray) for each output." },
    { "measure", METHOD(session_measure), METH_VARARGS,
      "measure(inputs, iterations, warmup, receipt)\n--\n\nOutputs and the latencies." },
    { "random", METHOD(session_random), METH_VARARGS,
      "random(i, seed, array)\n--\n\nFill an array with values that suit input i." },
    { "flush", METHOD(session_flush), METH_NOARGS,
      "Have the engine report what it measured so far." },
    { "close", METHOD(session_close), METH_NOARGS, "Free it. More than once is fine." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef session_fields[] = {
    { "closed", (getter)session_closed, NULL, "Has close() been called?", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyObject *no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return PyErr_Format(PyExc_TypeError, "%R is made by open_session()", (PyObject *)type);
}

static PyType_Slot session_slots[] = {
    { Py_tp_doc, "A model that is ready to run. Made by open_session()." },
    { Py_tp_new, SLOT(no_new) },
    { Py_tp_dealloc, SLOT(session_dealloc) },
    { Py_tp_traverse, SLOT(session_traverse) },
    { Py_tp_clear, SLOT(session_clear) },
    { Py_tp_methods, session_methods },
    { Py_tp_getset, session_fields },
    { 0, NULL },
};

static PyType_Spec session_spec = { .name = "opmeter._run.Session",
                                    .basicsize = sizeof(struct session),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                    .slots = session_slots };

static struct session *session_new(PyObject *module)
{
    struct session *s =
        PyObject_GC_New(struct session, (PyTypeObject *)state_of(module)->session_type);

    if (!s)
        return NULL;
    Py_INCREF(module);
    s->module = module;
    s->session = NULL;
    s->lock = PyThread_allocate_lock();
    PyObject_GC_Track(s);
    if (!s->lock) {
        Py_DECREF(s);
        PyErr_NoMemory();
        return NULL;
    }
    return s;
}

/* "NAME=N" texts of a list, up to a NULL; valid as long as the list. */
static const char **dims_of(PyObject *list)
{
    Py_ssize_t n = PyList_Size(list);
    const char **dims = calloc((size_t)n + 1, sizeof(*dims));

    if (!dims)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; dims && i < n; i++) {
        dims[i] = PyBytes_AsString(PyList_GetItem(list, i));
        if (!dims[i]) {
            free(dims);
            return NULL;
        }
    }
    return dims;
}

static PyObject *open_session(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "model",      "engine",     "ort_lib",       "dims",
                             "batch_size", "seq_len",    "seed",          "threads",
                             "pin",        "max_memory", "time_limit_ns", NULL };
    opm_session_options o = OPM_SESSION_OPTIONS_INIT;
    long long batch_size = 0, seq_len = 0, max_memory = 0, time_limit_ns = 0;
    unsigned long long seed = o.seed;
    const char **dims = NULL, *path;
    struct session *s = NULL;
    opm_error err = { 0 };
    PyObject *model, *list;
    opm_session *made = NULL;
    int rc = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "SzzO!LLKipLL:open_session", names, &model,
                                     &o.engine, &o.ort_lib, &PyList_Type, &list, &batch_size,
                                     &seq_len, &seed, &o.threads, &o.pin, &max_memory,
                                     &time_limit_ns))
        return NULL;
    o.max_memory = max_memory;
    o.time_limit_ns = time_limit_ns;
    o.batch_size = batch_size;
    o.seq_len = seq_len;
    o.seed = seed;
    path = PyBytes_AsString(model);
    dims = dims_of(list);
    if (dims)
        s = session_new(module);
    if (s) {
        o.dims = dims;
        Py_BEGIN_ALLOW_THREADS
        rc = opm_session_open(&made, path, &o, &err);
        Py_END_ALLOW_THREADS
        s->session = made;
        if (rc < 0) {
            Py_CLEAR(s);
            raise_error(state_of(module), &err);
        }
    }
    free(dims);
    return (PyObject *)s;
}

static PyObject *names_of(const char *(*get)(size_t))
{
    PyObject *list = PyList_New(0);

    for (size_t i = 0; list && get(i); i++) {
        PyObject *name = PyUnicode_FromString(get(i));

        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *engines(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return names_of(opm_engine_name);
}

static PyObject *zoo(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return names_of(opm_zoo_name);
}

static PyMethodDef functions[] = {
    { "open_session", METHOD(open_session), METH_VARARGS | METH_KEYWORDS,
      "open_session(model, engine, ort_lib, dims, batch_size, seq_len, seed, threads, pin)\n--\n\n"
      "Load a model; its path and dims, each NAME=N, are bytes." },
    { "engines", METHOD(engines), METH_NOARGS, "Names of the engines, the default first." },
    { "zoo", METHOD(zoo), METH_NOARGS, "Names of the models of the zoo." },
    { NULL, NULL, 0, NULL },
};

static int module_exec(PyObject *module)
{
    struct state *s = state_of(module);
    PyObject *base = PyImport_ImportModule("opmeter._opmeter");

    s->error = base ? PyObject_GetAttrString(base, "Error") : NULL;
    Py_XDECREF(base);
    if (!s->error)
        return -1;
    s->session_type = PyType_FromSpec(&session_spec);
    if (!s->session_type)
        return -1;
    Py_INCREF(s->session_type);
    if (PyModule_AddObject(module, "Session", s->session_type) < 0) {
        Py_DECREF(s->session_type);
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    Py_VISIT(state_of(module)->error);
    Py_VISIT(state_of(module)->session_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    Py_CLEAR(state_of(module)->error);
    Py_CLEAR(state_of(module)->session_type);
    return 0;
}

static void module_free(void *module)
{
    module_clear(module);
}

static PyModuleDef_Slot slots[] = { { Py_mod_exec, SLOT(module_exec) }, { 0, NULL } };

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,          .m_name = "opmeter._run", .m_doc = "Sessions that run models.",
    .m_size = sizeof(struct state), .m_slots = slots,         .m_traverse = module_traverse,
    .m_clear = module_clear,        .m_free = module_free,
};

PyMODINIT_FUNC PyInit__run(void);

PyMODINIT_FUNC PyInit__run(void)
{
    return PyModuleDef_Init(&definition);
}
