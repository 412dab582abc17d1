/* span.c -- beginning and ending spans. See span.h. */
#include "span.h"

#include <stdlib.h>
#include <string.h>

#define SPANS_MAX 16384 /* names remembered: programs that make them up must not eat the memory */
#define LOOKS_MAX 8     /* at who begins a site, before it counts as settled */

/* Out of the way of a span that is off, which would save registers for it. */
#define ASIDE __attribute__((noinline))

/* The thread's own: its address says which thread this is. */
static __thread struct {
    uint32_t named; /* which recording knows its name */
    uint32_t depth; /* of the innermost span that Python began here and has not ended */
} here __attribute__((tls_model("initial-exec")));

/* ---- sites ---- */

static void site_release(struct site *site)
{
    if (--site->refs)
        return;
    Py_DECREF(site->name);
    Py_XDECREF(site->category);
    free(site);
}

static struct site *site_new(PyObject *name, PyObject *category, int layer)
{
    const char *text = text_of(name, "name"), *cat = NULL;
    struct site *site;

    if (category == Py_None)
        category = NULL;
    if (text && category)
        cat = text_of(category, "category");
    if (!text || (category && !cat))
        return NULL;
    site = calloc(1, sizeof(*site));
    if (!site) {
        PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(name);
    Py_XINCREF(category);
    site->name = name;
    site->category = category;
    site->site = (opm_site)OPM_SITE_INIT((uint32_t)layer, cat, text);
    site->refs = 1;
    return site;
}

static ASIDE struct span *span_of_site(PyTypeObject *type, enum span_kind kind, struct site *site)
{
    struct span *span = PyObject_New(struct span, type);

    if (!span)
        return NULL;
    memset((char *)span + sizeof(PyObject), 0, sizeof(*span) - sizeof(PyObject));
    site->refs++;
    span->site = site;
    span->kind = kind;
    span->step = -1;
    span->open = &span->first;
    span->cap = 1;
    return span;
}

struct span *span_new(const struct state *s, enum span_kind kind, PyObject *name,
                      PyObject *category, int layer)
{
    struct site *site = site_new(name, category, layer);
    struct span *span = site ? span_of_site((PyTypeObject *)s->span_type, kind, site) : NULL;

    if (site)
        site_release(site);
    return span;
}

static void span_dealloc(struct span *span)
{
    PyTypeObject *type = Py_TYPE(span);

    site_release(span->site);
    Py_XDECREF(span->args);
    Py_XDECREF(span->meta);
    Py_XDECREF(span->op);
    if (span->open != &span->first)
        free(span->open);
    PyObject_Free(span);
    Py_DECREF(type);
}

/* ---- arguments ---- */

/* Numbers and text as they are, anything else as str() has it. New reference. */
static PyObject *arg_value(PyObject *v)
{
    PyObject *number;

    if (PyLong_Check(v) || PyFloat_Check(v) || PyUnicode_Check(v)) {
        Py_INCREF(v);
        return v;
    }
    if (PyIndex_Check(v)) {
        number = PyNumber_Index(v);
        if (number)
            return number;
        PyErr_Clear();
    }
    number = PyNumber_Check(v) && !PyComplex_Check(v) ? PyNumber_Float(v) : NULL;
    if (number)
        return number;
    PyErr_Clear();
    return PyObject_Str(v);
}

static int arg_put_text(opm_span span, const char *key, PyObject *v)
{
    PyObject *bytes = PyUnicode_AsEncodedString(v, "utf-8", "backslashreplace");

    if (!bytes)
        return -1;
    opm_arg_str(span, key, PyBytes_AsString(bytes));
    Py_DECREF(bytes);
    return 0;
}

static int arg_put(opm_span span, PyObject *key, PyObject *value)
{
    const char *name = text_of(key, "name of an argument");
    PyObject *v = name ? arg_value(value) : NULL;
    int rc = 0;

    if (!v)
        return -1;
    if (PyLong_Check(v)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(v, &overflow);

        if (overflow)
            opm_arg_real(span, name, PyLong_AsDouble(v));
        else
            opm_arg_int(span, name, number);
        PyErr_Clear(); /* too large even for a double: infinite */
    } else if (PyFloat_Check(v)) {
        opm_arg_real(span, name, PyFloat_AsDouble(v));
    } else {
        rc = arg_put_text(span, name, v);
    }
    Py_DECREF(v);
    return rc;
}

static int args_put(opm_span span, PyObject *args)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;

    while (PyDict_Next(args, &at, &key, &value))
        if (arg_put(span, key, value) < 0)
            return -1;
    return 0;
}

/* ---- beginning and ending ---- */

/* Does a coroutine run the code that is about to begin a span? It may be suspended inside, and
 * others then begin and end spans on the same thread in any order. */
static bool in_coroutine(void)
{
    enum { COROUTINE = 0x80, ITERABLE_COROUTINE = 0x100, ASYNC_GENERATOR = 0x200 };
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject *code = frame ? PyFrame_GetCode(frame) : NULL;
    PyObject *flags = code ? PyObject_GetAttrString((PyObject *)code, "co_flags") : NULL;
    long bits = flags ? PyLong_AsLong(flags) : 0;

    Py_XDECREF(flags);
    Py_XDECREF(code);
    PyErr_Clear();
    return bits > 0 && bits & (COROUTINE | ITERABLE_COROUTINE | ASYNC_GENERATOR);
}

/* Asking costs more than the span itself, so a site that no coroutine begins is settled soon. If
 * its spans ever get out of order, span_end() has it looked at again. */
static bool site_awaits(struct site *site)
{
    if (site->looks >= LOOKS_MAX && !site->awaits)
        return false;
    site->looks += site->looks < LOOKS_MAX;
    if (!in_coroutine())
        return false;
    site->awaits = true;
    return true;
}

static opm_span span_start(struct span *span, bool may_wander, bool *out_wanders)
{
    struct site *site = span->site;

    *out_wanders = false;
    switch (span->kind) {
    case SPAN_PLAIN:
        if (!opm_on((enum opm_layer)site->site.layer))
            return opm_span_none();
        *out_wanders = may_wander || site_awaits(site);
        return *out_wanders ? opm_async_begin(&site->site) : opm_begin(&site->site);
    case SPAN_ASYNC:
        *out_wanders = true;
        return opm_async_begin(&site->site);
    case SPAN_STEP:
        return opm_step_begin(site->site.name, span->step, (enum opm_record_flags)span->flags);
    case SPAN_RECORD:
        return opm_record_begin(site->site.name, (enum opm_record_flags)span->flags);
    case SPAN_ACTIVITY:
        *out_wanders = true;
        return opm_activity_begin(site->site.name, span->step,
                                  span->meta ? PyBytes_AsString(span->meta) : NULL);
    case SPAN_OP:
        return opm_op_begin(span->handle);
    }
    return opm_span_none();
}

static int span_grow(struct span *span)
{
    uint32_t cap = span->cap * 2;
    struct open_span *old = span->open == &span->first ? NULL : span->open;
    struct open_span *open = realloc(old, cap * sizeof(*open));

    if (!open) {
        PyErr_NoMemory();
        return -1;
    }
    if (!old)
        open[0] = span->first;
    span->open = open;
    span->cap = cap;
    return 0;
}

/* may_wander: the caller knows that it may be suspended inside. */
static int span_begin(struct span *span, bool may_wander)
{
    struct open_span *o;

    if (span->n == span->cap && span_grow(span) < 0)
        return -1;
    o = &span->open[span->n++];
    o->thread = &here;
    o->span = span_start(span, may_wander, &o->wanders);
    span->last = o->span;
    if (!o->span.depth)
        return 0;
    if (!o->wanders)
        here.depth = o->span.depth;
    if (here.named != recorder_generation)
        here.named = recorder_name_thread();
    return span->args ? args_put(span->last, span->args) : 0;
}

static bool span_began_here(const struct span *span)
{
    for (uint32_t i = span->n; i-- > 0;)
        if (span->open[i].thread == &here)
            return true;
    return false;
}

/* Which of the open ones ends now; span->n: none. */
static uint32_t span_find(const struct span *span)
{
    for (uint32_t i = span->n; i-- > 0;)
        if (span->open[i].thread == &here)
            return i;
    return span->n && span->open[span->n - 1].wanders ? span->n - 1 : span->n;
}

/* The one that the caller is inside of, or the last one if it is in none. */
static opm_span span_current(const struct span *span)
{
    uint32_t i = span_find(span);

    return i < span->n ? span->open[i].span : span->last;
}

/* False: it has not begun here. */
static bool span_end(struct span *span)
{
    uint32_t i = span_find(span);
    struct open_span o;

    if (i == span->n)
        return false;
    o = span->open[i];
    memmove(&span->open[i], &span->open[i + 1], (span->n - i - 1) * sizeof(o));
    span->n--;
    if (o.span.depth && !o.wanders) {
        if (here.depth != o.span.depth)
            span->site->looks = 0;
        here.depth = o.span.depth - 1;
    }
    opm_end(o.span);
    return true;
}

/* ---- methods ---- */

static ASIDE PyObject *span_begin_method(struct span *span, PyObject *unused)
{
    (void)unused;
    if (span_begin(span, false) < 0)
        return NULL;
    Py_INCREF(span);
    return (PyObject *)span;
}

/* While nothing is recorded, and no other beginning of the same span is open that an end could be
 * taken for, it is counted and no more. */
static PyObject *span_enter(struct span *span, PyObject *unused)
{
    if (span->n || span->kind != SPAN_PLAIN || opm_on((enum opm_layer)span->site->site.layer))
        return span_begin_method(span, unused);
    span->unseen++;
    span->last = opm_span_none(); /* what is said of it now is about nothing */
    Py_INCREF(span);
    return (PyObject *)span;
}

/* For `async with`. */
static PyObject *span_enter_async(struct span *span, PyObject *unused)
{
    (void)unused;
    if (span_begin(span, true) < 0)
        return NULL;
    Py_INCREF(span);
    return (PyObject *)span;
}

static ASIDE PyObject *span_exit_begun(struct span *span, PyObject *const *args, Py_ssize_t nargs)
{
    /* What began since on this thread ends first. */
    if (span->unseen && !span_began_here(span)) {
        span->unseen--;
        Py_RETURN_NONE;
    }
    if (nargs > 0 && args[0] != Py_None) {
        PyObject *name = PyObject_GetAttrString(args[0], "__name__");

        if (name && PyUnicode_Check(name))
            arg_put_text(span_current(span), "exception", name);
        Py_XDECREF(name);
        PyErr_Clear(); /* the one on its way matters more */
    }
    span_end(span);
    Py_RETURN_NONE;
}

static PyObject *span_exit(struct span *span, PyObject *const *args, Py_ssize_t nargs)
{
    if (span->n || !span->unseen)
        return span_exit_begun(span, args, nargs);
    span->unseen--;
    Py_RETURN_NONE;
}

static PyObject *span_end_method(struct span *span, PyObject *unused)
{
    (void)unused;
    if (!span_end(span)) {
        PyErr_Format(PyExc_ValueError, "end of %R, which has not begun on this thread",
                     span->site->name);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *span_set(struct span *span, PyObject *args, PyObject *kwargs)
{
    opm_span current = span_current(span);

    if (!PyArg_ParseTuple(args, ":set"))
        return NULL;
    if (kwargs && current.depth && args_put(current, kwargs) < 0)
        return NULL;
    Py_INCREF(span);
    return (PyObject *)span;
}

static PyObject *span_link(struct span *span, PyObject *other)
{
    if (Py_TYPE(other) != Py_TYPE(span)) {
        PyErr_Format(PyExc_TypeError, "an arrow leads to a span, not to %R",
                     (PyObject *)Py_TYPE(other));
        return NULL;
    }
    opm_flow(span_current(span), span_current((struct span *)other));
    Py_RETURN_NONE;
}

static PyObject *span_correlate(struct span *span, PyObject *number)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(number);

    if (PyErr_Occurred())
        return NULL;
    opm_correlate(span_current(span), n);
    Py_RETURN_NONE;
}

/* As a decorator. What to do with functions, coroutines and generators is easier said in Python. */
static PyObject *span_call(PyObject *span, PyObject *args, PyObject *kwargs)
{
    PyObject *function, *module, *wrapped = NULL;

    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "a span called as a decorator takes one function");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O:span", &function))
        return NULL;
    module = PyImport_ImportModule("opmeter._wrap");
    if (module)
        wrapped = PyObject_CallMethod(module, "wrap", "OO", span, function);
    Py_XDECREF(module);
    return wrapped;
}

static PyObject *span_repr(struct span *span)
{
    static const char *const kinds[] = {
        [SPAN_PLAIN] = "span",    [SPAN_ASYNC] = "async span",  [SPAN_STEP] = "step",
        [SPAN_RECORD] = "record", [SPAN_ACTIVITY] = "activity", [SPAN_OP] = "operator",
    };

    return PyUnicode_FromFormat("<opmeter %s %R%s>", kinds[span->kind], span->site->name,
                                span->n ? ", open" : "");
}

static PyObject *span_name(struct span *span, void *unused)
{
    (void)unused;
    Py_INCREF(span->site->name);
    return span->site->name;
}

static PyObject *span_category(struct span *span, void *unused)
{
    PyObject *category = span->site->category ? span->site->category : Py_None;

    (void)unused;
    Py_INCREF(category);
    return category;
}

/* The same span for functions that may be suspended; used by decorators. */
static PyObject *span_as_async(struct span *span, PyObject *unused)
{
    struct span *other =
        span_of_site(Py_TYPE(span), span->kind == SPAN_PLAIN ? SPAN_ASYNC : span->kind, span->site);

    (void)unused;
    if (other) {
        Py_XINCREF(span->args);
        Py_XINCREF(span->meta);
        Py_XINCREF(span->op);
        other->args = span->args;
        other->meta = span->meta;
        other->op = span->op;
        other->handle = span->handle;
        other->flags = span->flags;
        other->step = span->step;
    }
    return (PyObject *)other;
}

static PyMethodDef span_methods[] = {
    { "__enter__", METHOD(span_enter), METH_NOARGS, NULL },
    { "__exit__", METHOD(span_exit), METH_FASTCALL, NULL },
    { "begin", METHOD(span_begin_method), METH_NOARGS,
      "Begin it on this thread; returns the span." },
    { "end", METHOD(span_end_method), METH_NOARGS, "End what begin() began last." },
    { "set", METHOD(span_set), METH_VARARGS | METH_KEYWORDS,
      "set(**facts)\n--\n\nSay something about the span: numbers or text. Returns the span." },
    { "link", METHOD(span_link), METH_O,
      "Draw an arrow from this span to another one; both must have begun." },
    { "correlate", METHOD(span_correlate), METH_O,
      "Link it with device spans of the same correlation number." },
    { "_begin_async", METHOD(span_enter_async), METH_NOARGS, NULL },
    { "_as_async", METHOD(span_as_async), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef span_fields[] = {
    { "name", (getter)span_name, NULL, "Its name.", NULL },
    { "category", (getter)span_category, NULL, "Its category, or None.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot span_slots[] = {
    { Py_tp_doc, "Something with a beginning and an end: a context manager and a decorator.\n\n"
                 "Made by span(), step(), record(), activity() and operators." },
    { Py_tp_new, SLOT(no_new) },
    { Py_tp_dealloc, SLOT(span_dealloc) },
    { Py_tp_repr, SLOT(span_repr) },
    { Py_tp_call, SLOT(span_call) },
    { Py_tp_methods, span_methods },
    { Py_tp_getset, span_fields },
    { 0, NULL },
};

static PyType_Spec span_spec = { .name = "opmeter._opmeter.Span",
                                 .basicsize = sizeof(struct span),
                                 .flags = Py_TPFLAGS_DEFAULT,
                                 .slots = span_slots };

/* ---- __enter__ and __exit__ ---- */

/* `with` asks the type for both and binds them: two objects made and dropped each time, half the
 * cost of a span that is off. A binder hands out what a remembered span keeps bound. */
struct binder {
    PyObject base;
    PyObject *plain; /* the type's own method */
    PyMethodDef *method;
    bool exit;
};

static PyObject *binder_get(struct binder *binder, PyObject *o, PyObject *type)
{
    struct span *span = (struct span *)o;
    PyObject *bound;

    (void)type;
    bound = !o ? binder->plain : binder->exit ? span->exit : span->enter;
    if (!bound)
        return PyCFunction_NewEx(binder->method, o, NULL);
    Py_INCREF(bound);
    return bound;
}

static void binder_dealloc(struct binder *binder)
{
    PyTypeObject *type = Py_TYPE(binder);

    Py_XDECREF(binder->plain);
    PyObject_Free(binder);
    Py_DECREF(type);
}

static PyType_Slot binder_slots[] = {
    { Py_tp_new, SLOT(no_new) },
    { Py_tp_dealloc, SLOT(binder_dealloc) },
    { Py_tp_descr_get, SLOT(binder_get) },
    { 0, NULL },
};

static PyType_Spec binder_spec = { .name = "opmeter._opmeter.Binder",
                                   .basicsize = sizeof(struct binder),
                                   .flags = Py_TPFLAGS_DEFAULT,
                                   .slots = binder_slots };

static PyMethodDef *const enter_method = &span_methods[0], *const exit_method = &span_methods[1];

static int binder_add(const struct state *s, PyMethodDef *method, bool exit)
{
    struct binder *binder = PyObject_New(struct binder, (PyTypeObject *)s->binder_type);
    int rc = -1;

    if (!binder)
        return -1;
    binder->method = method;
    binder->exit = exit;
    binder->plain = PyObject_GetAttrString(s->span_type, method->ml_name);
    if (binder->plain)
        rc = PyObject_SetAttrString(s->span_type, method->ml_name, (PyObject *)binder);
    Py_DECREF(binder);
    return rc;
}

/* A remembered span and its bound methods keep each other alive until span_forget(). */
static int span_bind(struct span *span)
{
    span->enter = PyCFunction_NewEx(enter_method, (PyObject *)span, NULL);
    span->exit = span->enter ? PyCFunction_NewEx(exit_method, (PyObject *)span, NULL) : NULL;
    if (span->exit)
        return 0;
    Py_CLEAR(span->enter);
    return -1;
}

void span_forget(struct state *s)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;

    if (!s->spans)
        return;
    Py_CLEAR(s->last_name);
    while (PyDict_Next(s->spans, &at, &key, &value)) {
        struct span *span = (struct span *)value;

        Py_CLEAR(span->enter);
        Py_CLEAR(span->exit);
    }
    PyDict_Clear(s->spans);
}

/* ---- span() ---- */

#define REMEMBERED_REFS 3 /* the dict and both bound methods */

/* A span of a name that has been used before, without any work if nobody else has hold of it. */
static inline PyObject *span_again(struct span *known)
{
    if (Py_REFCNT(known) == REMEMBERED_REFS && !known->n && !known->unseen) {
        Py_INCREF(known);
        return (PyObject *)known;
    }
    return (PyObject *)span_of_site(Py_TYPE(known), known->kind, known->site);
}

static PyObject *span_remember(struct state *s, PyObject *key, PyObject *name, PyObject *category,
                               int layer)
{
    struct span *span = span_new(s, SPAN_PLAIN, name, category, layer);

    if (!span)
        return NULL;
    if (PyDict_Size(s->spans) >= SPANS_MAX)
        span_forget(s);
    if (span_bind(span) < 0 || PyDict_SetItem(s->spans, key, (PyObject *)span) < 0) {
        Py_CLEAR(span->enter);
        Py_CLEAR(span->exit);
        Py_DECREF(span);
        return NULL;
    }
    return (PyObject *)span;
}

static PyObject *span_find_or_new(struct state *s, PyObject *name, PyObject *category, int layer)
{
    PyObject *key, *known, *span;

    if (!text_of(name, "name"))
        return NULL;
    if (category || layer != OPM_APP)
        key = Py_BuildValue("(OOi)", name, category ? category : Py_None, layer);
    else
        key = Py_BuildValue("O", name);
    if (!key)
        return NULL;
    known = PyDict_GetItemWithError(s->spans, key);
    if (known)
        span = span_again((struct span *)known);
    else
        span = PyErr_Occurred() ? NULL : span_remember(s, key, name, category, layer);
    Py_DECREF(key);
    return span;
}

/* Facts for every beginning of a span; makes it one that is not shared. */
static PyObject *span_with_args(PyObject *span, PyObject *args)
{
    struct span *own = (struct span *)span;
    struct span *fresh = span_of_site(Py_TYPE(span), own->kind, own->site);

    Py_DECREF(span);
    if (fresh) {
        Py_INCREF(args);
        fresh->args = args;
    }
    return (PyObject *)fresh;
}

/* The keywords of a call that are no parameters: category and layer are put where they belong. */
static int span_keywords(PyObject *const *values, PyObject *names, PyObject **category,
                         PyObject **layer, PyObject **out_args)
{
    Py_ssize_t n = PyTuple_Size(names);

    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(names, i), *value = NULL;

        if (PyUnicode_CompareWithASCIIString(name, "category") == 0) {
            *category = values[i];
        } else if (PyUnicode_CompareWithASCIIString(name, "layer") == 0) {
            *layer = values[i];
        } else {
            if (!*out_args)
                *out_args = PyDict_New();
            if (!*out_args)
                return -1;
            value = arg_value(values[i]);
            if (!value || PyDict_SetItem(*out_args, name, value) < 0) {
                Py_XDECREF(value);
                return -1;
            }
            Py_DECREF(value);
        }
    }
    return 0;
}

static PyObject *span_general(struct state *s, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *names)
{
    PyObject *category = nargs > 1 ? args[1] : NULL, *layer = nargs > 2 ? args[2] : NULL;
    PyObject *facts = NULL, *span = NULL;
    int l = -1;

    if (nargs < 1 || nargs > 3) {
        PyErr_Format(PyExc_TypeError,
                     "span() takes a name, a category and a layer, and facts by name; %zd given",
                     nargs);
        return NULL;
    }
    if (!names || span_keywords(args + nargs, names, &category, &layer, &facts) == 0)
        l = layer_of(layer);
    if (category == Py_None)
        category = NULL;
    if (l >= 0)
        span = span_find_or_new(s, args[0], category, l);
    if (span && facts)
        span = span_with_args(span, facts);
    Py_XDECREF(facts);
    return span;
}

/* span(function): a span of its name, around it. */
static PyObject *span_around(struct state *s, PyObject *function)
{
    PyObject *name = PyObject_GetAttrString(function, "__qualname__"), *span, *wrapped = NULL;

    if (!name)
        return NULL;
    span = (PyObject *)span_new(s, SPAN_PLAIN, name, NULL, OPM_APP);
    if (span)
        wrapped = PyObject_CallFunctionObjArgs(span, function, NULL);
    Py_XDECREF(span);
    Py_DECREF(name);
    return wrapped;
}

static ASIDE PyObject *span_of_call(struct state *s, PyObject *const *args, Py_ssize_t nargs,
                                    PyObject *names)
{
    PyObject *known;

    if (nargs == 1 && !names) {
        if (PyUnicode_CheckExact(args[0])) {
            known = PyDict_GetItemWithError(s->spans, args[0]);
            if (known) {
                Py_INCREF(args[0]);
                Py_XDECREF(s->last_name);
                s->last_name = args[0];
                s->last_span = (struct span *)known;
                return span_again(s->last_span);
            }
            if (PyErr_Occurred())
                return NULL;
            return span_remember(s, args[0], args[0], NULL, OPM_APP);
        }
        if (PyCallable_Check(args[0]))
            return span_around(s, args[0]);
    }
    return span_general(s, args, nargs, names);
}

static PyObject *span_function(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *names)
{
    struct state *s = state_of(module);

    /* A loop asks for the same text again and again. */
    if (nargs == 1 && !names && args[0] == s->last_name)
        return span_again(s->last_span);
    return span_of_call(s, args, nargs, names);
}

static PyMethodDef functions[] = {
    { "span", METHOD(span_function), METH_FASTCALL | METH_KEYWORDS,
      "span(name, category=None, layer='app', **facts)\n--\n\n"
      "A span: `with span('load'): ...`, or a decorator for functions, coroutines and generators.\n"
      "The object may be kept and used again and again. layer: 'app', 'framework', 'runtime' or\n"
      "'hardware'; facts are kept with the span. `@span` alone takes the function's name." },
    { NULL, NULL, 0, NULL },
};

int span_add(PyObject *module)
{
    struct state *s = state_of(module);

    if (type_add(module, &s->span_type, &span_spec, "Span") < 0 ||
        type_add(module, &s->binder_type, &binder_spec, NULL) < 0 ||
        binder_add(s, enter_method, false) < 0 || binder_add(s, exit_method, true) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
