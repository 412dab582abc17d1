/* object.c -- operators, queues, counters and tracks: defined once, used many times. */
#include "span.h"

#include <stdlib.h>

/* ---- operators ---- */

#define OP_CAPSULE "opmeter.op"
#define TENSORS_MAX 4096
#define DIMS_MAX 64

static void op_capsule_free(PyObject *capsule)
{
    opm_op_free(PyCapsule_GetPointer(capsule, OP_CAPSULE));
}

/* What an operator is described with, while it is being defined. */
struct op_text {
    opm_op_info info;
    opm_tensor *tensors;
    PyObject *keep; /* list of objects whose text is in use */
};

static void op_text_release(struct op_text *t)
{
    for (uint32_t i = 0; i < t->info.ntensors; i++)
        free((void *)(uintptr_t)t->tensors[i].dims);
    free(t->tensors);
    Py_XDECREF(t->keep);
}

/* Text of an object that `keep` keeps; None: NULL. Steals `o`. */
static int op_text_take(struct op_text *t, PyObject *o, const char *what, const char **out)
{
    int rc = -1;

    if (!o)
        return -1;
    if (o == Py_None) {
        rc = 0;
    } else {
        *out = text_of(o, what);
        if (*out)
            rc = PyList_Append(t->keep, o);
    }
    Py_DECREF(o);
    return rc;
}

static int tensor_dims(opm_tensor *out, PyObject *shape)
{
    Py_ssize_t n = PySequence_Size(shape);
    int64_t *dims;

    if (n < 0)
        return -1;
    if (n > DIMS_MAX) {
        PyErr_Format(PyExc_ValueError, "a tensor of %zd dimensions; at most %d", n, DIMS_MAX);
        return -1;
    }
    dims = calloc((size_t)n + 1, sizeof(*dims));
    if (!dims) {
        PyErr_NoMemory();
        return -1;
    }
    out->dims = dims;
    out->ndim = (uint32_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *d = PySequence_GetItem(shape, i), *number = d ? PyNumber_Index(d) : NULL;

        dims[i] = number ? PyLong_AsLongLong(number) : -1;
        Py_XDECREF(number);
        Py_XDECREF(d);
        if (PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* A tensor is (name, dtype, shape) or (name, dtype, shape, bytes). */
static int tensor_add(struct op_text *t, PyObject *item, enum opm_io io)
{
    opm_tensor *out = &t->tensors[t->info.ntensors];
    PyObject *tuple = PySequence_Tuple(item), *name, *dtype, *shape;
    long long bytes = -1;
    int rc = -1;

    if (!tuple)
        return -1;
    *out = (opm_tensor){ .io = io, .bytes = -1 };
    t->info.ntensors++;
    if (PyArg_ParseTuple(tuple,
                         "OOO|L;a tensor is (name, dtype, shape) or (name, dtype, shape, "
                         "bytes)",
                         &name, &dtype, &shape, &bytes)) {
        out->bytes = bytes;
        Py_INCREF(name);
        rc = op_text_take(t, name, "name of a tensor", &out->name);
        if (rc == 0)
            rc = op_text_take(t, dtype == Py_None ? Py_BuildValue("O", dtype) : PyObject_Str(dtype),
                              "dtype", &out->dtype);
        if (rc == 0)
            rc = tensor_dims(out, shape);
    }
    Py_DECREF(tuple);
    return rc;
}

static int tensors_add(struct op_text *t, PyObject *list, enum opm_io io)
{
    Py_ssize_t n = list && list != Py_None ? PySequence_Size(list) : 0;
    opm_tensor *grown;

    if (n <= 0)
        return (int)n;
    if (n > TENSORS_MAX) {
        PyErr_Format(PyExc_ValueError, "an operator with %zd tensors; at most %d", n, TENSORS_MAX);
        return -1;
    }
    grown = realloc(t->tensors, (t->info.ntensors + (size_t)n) * sizeof(*grown));
    if (!grown) {
        PyErr_NoMemory();
        return -1;
    }
    t->tensors = grown;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        int rc = item ? tensor_add(t, item, io) : -1;

        Py_XDECREF(item);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static PyObject *op_span(const struct state *s, PyObject *name, const opm_op_info *info)
{
    opm_op *op = opm_op_define(info);
    PyObject *capsule = op ? PyCapsule_New(op, OP_CAPSULE, op_capsule_free) : PyErr_NoMemory();
    struct span *span;

    if (!capsule) {
        opm_op_free(op);
        return NULL;
    }
    span = span_new(s, SPAN_OP, name, NULL, OPM_FRAMEWORK);
    if (!span) {
        Py_DECREF(capsule);
        return NULL;
    }
    span->op = capsule;
    span->handle = op;
    return (PyObject *)span;
}

static PyObject *op(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name",
                             "type",
                             "post_op",
                             "device",
                             "engine",
                             "flops",
                             "bytes",
                             "inputs",
                             "weights",
                             "outputs",
                             "attributes",
                             "nodes",
                             "weight_zero_ratio",
                             NULL };
    struct op_text t = { .info = OPM_OP_INFO_INIT };
    PyObject *name, *inputs = NULL, *weights = NULL, *outputs = NULL, *attributes = NULL,
                    *nodes = NULL, *span = NULL;
    long long flops = -1, bytes = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|zzzzLLOOOOOd:op", names, &name, &t.info.type,
                                     &t.info.post_op, &t.info.device, &t.info.engine, &flops,
                                     &bytes, &inputs, &weights, &outputs, &attributes, &nodes,
                                     &t.info.weight_zero_ratio))
        return NULL;
    t.info.flops = flops;
    t.info.bytes = bytes;
    t.info.name = text_of(name, "name");
    t.keep = t.info.name ? PyList_New(0) : NULL;
    if (t.keep && op_text_take(&t, json_text(attributes), "attributes", &t.info.attributes) == 0 &&
        op_text_take(&t, json_text(nodes), "nodes", &t.info.nodes) == 0 &&
        tensors_add(&t, inputs, OPM_INPUT) == 0 && tensors_add(&t, weights, OPM_WEIGHT) == 0 &&
        tensors_add(&t, outputs, OPM_OUTPUT) == 0) {
        t.info.tensors = t.tensors;
        span = op_span(state_of(module), name, &t.info);
    }
    op_text_release(&t);
    return span;
}

/* ---- queues ---- */

struct queue {
    PyObject base;
    opm_queue *queue;
};

static void queue_dealloc(struct queue *q)
{
    PyTypeObject *type = Py_TYPE(q);

    opm_queue_free(q->queue);
    PyObject_Free(q);
    Py_DECREF(type);
}

static PyObject *queue_size(struct queue *q, PyObject *n)
{
    long long size = PyLong_AsLongLong(n);

    if (PyErr_Occurred())
        return NULL;
    opm_queue_size(q->queue, size);
    Py_RETURN_NONE;
}

static PyMethodDef queue_methods[] = {
    { "size", METHOD(queue_size), METH_O, "Say how many elements are in the queue now." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot queue_slots[] = {
    { Py_tp_doc, "A queue whose length is recorded. Made by queue()." },
    { Py_tp_new, SLOT(no_new) },
    { Py_tp_dealloc, SLOT(queue_dealloc) },
    { Py_tp_methods, queue_methods },
    { 0, NULL },
};

static PyType_Spec queue_spec = { .name = "opmeter._opmeter.Queue",
                                  .basicsize = sizeof(struct queue),
                                  .flags = Py_TPFLAGS_DEFAULT,
                                  .slots = queue_slots };

static PyObject *queue(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "capacity", "producer", "workers", "consumer", NULL };
    const char *name, *producer = NULL, *consumer = NULL;
    unsigned workers = 0;
    long long capacity = -1;
    struct queue *q;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|LzIz:queue", names, &name, &capacity,
                                     &producer, &workers, &consumer))
        return NULL;
    q = PyObject_New(struct queue, (PyTypeObject *)state_of(module)->queue_type);
    if (!q)
        return NULL;
    q->queue = opm_queue_define(name, capacity);
    if (!q->queue) {
        Py_DECREF(q);
        return PyErr_NoMemory();
    }
    if (producer || consumer)
        opm_queue_connect(q->queue, producer, workers, consumer);
    return (PyObject *)q;
}

/* ---- counters ---- */

struct counter {
    PyObject base;
    opm_site site;
    PyObject *name;
    PyObject *category; /* or NULL */
};

static void counter_dealloc(struct counter *c)
{
    PyTypeObject *type = Py_TYPE(c);

    Py_XDECREF(c->name);
    Py_XDECREF(c->category);
    PyObject_Free(c);
    Py_DECREF(type);
}

static PyObject *counter_set(struct counter *c, PyObject *value)
{
    double v = PyFloat_AsDouble(value);

    if (PyErr_Occurred())
        return NULL;
    opm_counter(&c->site, v);
    Py_RETURN_NONE;
}

static PyMethodDef counter_methods[] = {
    { "set", METHOD(counter_set), METH_O, "The value from now on." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot counter_slots[] = {
    { Py_tp_doc, "A value that changes over time. Made by counter()." },
    { Py_tp_new, SLOT(no_new) },
    { Py_tp_dealloc, SLOT(counter_dealloc) },
    { Py_tp_methods, counter_methods },
    { 0, NULL },
};

static PyType_Spec counter_spec = { .name = "opmeter._opmeter.Counter",
                                    .basicsize = sizeof(struct counter),
                                    .flags = Py_TPFLAGS_DEFAULT,
                                    .slots = counter_slots };

static PyObject *counter(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "category", "layer", NULL };
    PyObject *name, *category = NULL, *layer = NULL;
    const char *text, *cat = NULL;
    struct counter *c;
    int l;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:counter", names, &name, &category, &layer))
        return NULL;
    if (category == Py_None)
        category = NULL;
    text = text_of(name, "name");
    l = text ? layer_of(layer) : -1;
    if (l >= 0 && category)
        cat = text_of(category, "category");
    if (l < 0 || (category && !cat))
        return NULL;
    c = PyObject_New(struct counter, (PyTypeObject *)state_of(module)->counter_type);
    if (!c)
        return NULL;
    Py_INCREF(name);
    Py_XINCREF(category);
    c->name = name;
    c->category = category;
    c->site = (opm_site)OPM_SITE_INIT((uint32_t)l, cat, text);
    return (PyObject *)c;
}

/* ---- tracks ---- */

struct track {
    PyObject base;
    opm_track *track;
};

static void track_dealloc(struct track *t)
{
    PyTypeObject *type = Py_TYPE(t);

    opm_track_free(t->track);
    PyObject_Free(t);
    Py_DECREF(type);
}

static PyObject *track_span(struct track *t, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "name", "start_ns", "end_ns", "correlation", "category", "layer", NULL
    };
    PyObject *name, *category = NULL, *layer = NULL;
    const char *text, *cat = NULL;
    long long start_ns, end_ns;
    unsigned long long correlation = 0;
    int l = OPM_HARDWARE;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OLL|KOO:span", names, &name, &start_ns, &end_ns,
                                     &correlation, &category, &layer))
        return NULL;
    text = text_of(name, "name");
    if (text && category && category != Py_None)
        cat = text_of(category, "category");
    if (text && layer && !PyErr_Occurred())
        l = layer_of(layer);
    if (PyErr_Occurred())
        return NULL;
    if (end_ns < start_ns) {
        PyErr_Format(PyExc_ValueError, "%R ends (%lld) before it starts (%lld)", name, end_ns,
                     start_ns);
        return NULL;
    }
    opm_site site = OPM_SITE_INIT((uint32_t)l, cat, text);

    opm_device_span(t->track, &site, start_ns, end_ns, correlation);
    Py_RETURN_NONE;
}

static PyObject *track_sync(struct track *t, PyObject *args)
{
    long long device_ns, monotonic_ns;

    if (!PyArg_ParseTuple(args, "LL:sync", &device_ns, &monotonic_ns))
        return NULL;
    opm_track_sync(t->track, device_ns, monotonic_ns);
    Py_RETURN_NONE;
}

static PyMethodDef track_methods[] = {
    { "span", METHOD(track_span), METH_VARARGS | METH_KEYWORDS,
      "span(name, start_ns, end_ns, correlation=0, category=None, layer='hardware')\n--\n\n"
      "A span measured elsewhere, in the clock of the track." },
    { "sync", METHOD(track_sync), METH_VARARGS,
      "sync(device_ns, monotonic_ns)\n--\n\nThe same moment on both clocks." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot track_slots[] = {
    { Py_tp_doc, "A line of the timeline for spans measured elsewhere. Made by track()." },
    { Py_tp_new, SLOT(no_new) },
    { Py_tp_dealloc, SLOT(track_dealloc) },
    { Py_tp_methods, track_methods },
    { 0, NULL },
};

static PyType_Spec track_spec = { .name = "opmeter._opmeter.Track",
                                  .basicsize = sizeof(struct track),
                                  .flags = Py_TPFLAGS_DEFAULT,
                                  .slots = track_slots };

static int clock_of(const char *text)
{
    static const char *const names[] = { [OPM_CLOCK_MONOTONIC] = "monotonic",
                                         [OPM_CLOCK_REALTIME] = "realtime",
                                         [OPM_CLOCK_DEVICE] = "device" };

    for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    PyErr_Format(PyExc_ValueError, "clock must be 'monotonic', 'realtime' or 'device', not '%s'",
                 text);
    return -1;
}

static PyObject *track(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "kind", "device", "clock", NULL };
    const char *name, *kind = "stream", *device = NULL, *clock = "monotonic";
    struct track *t;
    int c;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|szs:track", names, &name, &kind, &device,
                                     &clock))
        return NULL;
    c = clock_of(clock);
    if (c < 0)
        return NULL;
    t = PyObject_New(struct track, (PyTypeObject *)state_of(module)->track_type);
    if (!t)
        return NULL;
    t->track = opm_track_define(kind, name, device, (enum opm_clock)c);
    if (!t->track) {
        Py_DECREF(t);
        return PyErr_NoMemory();
    }
    return (PyObject *)t;
}

static PyMethodDef functions[] = {
    { "op", METHOD(op), METH_VARARGS | METH_KEYWORDS,
      "op(name, type=None, post_op=None, device=None, engine=None, flops=-1, bytes=-1,\n"
      "   inputs=(), weights=(), outputs=(), attributes=None, nodes=None,\n"
      "   weight_zero_ratio=-1.0)\n--\n\n"
      "An operator of a model, described once and executed many times: `with conv1: ...`.\n"
      "Tensors are (name, dtype, shape) or (name, dtype, shape, bytes)." },
    { "queue", METHOD(queue), METH_VARARGS | METH_KEYWORDS,
      "queue(name, capacity=-1, producer=None, workers=0, consumer=None)\n--\n\n"
      "A queue of a pipeline; producer and consumer are the stages on both sides." },
    { "counter", METHOD(counter), METH_VARARGS | METH_KEYWORDS,
      "counter(name, category=None, layer='app')\n--\n\nA counter." },
    { "track", METHOD(track), METH_VARARGS | METH_KEYWORDS,
      "track(name, kind='stream', device=None, clock='monotonic')\n--\n\n"
      "A line of the timeline for spans measured elsewhere; times are in ns of the clock." },
    { NULL, NULL, 0, NULL },
};

int object_add(PyObject *module)
{
    struct state *s = state_of(module);

    if (type_add(module, &s->queue_type, &queue_spec, "Queue") < 0 ||
        type_add(module, &s->counter_type, &counter_spec, "Counter") < 0 ||
        type_add(module, &s->track_type, &track_spec, "Track") < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
