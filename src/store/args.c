/* args.c -- arguments of spans that differ in numbers only.
 *
 * Foreign traces give every span a JSON object of which just a few numbers are its own. The text
 * without them, a form, is interned once; the numbers of a span go into a byte string as varints,
 * each as its distance from the number that the first span of the form had there. The args column
 * then holds a place in the byte string, marked by ARGS_PACKED, instead of a string. */
#include "store/store_int.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VARINT_MAX 10

static uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static int64_t unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* Only for what put_varint() wrote. */
static const uint8_t *get_varint(const uint8_t *p, uint64_t *v)
{
    uint64_t x = 0;

    for (unsigned shift = 0;; shift += 7) {
        x |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p++ & 0x80))
            break;
    }
    *v = x;
    return p;
}

static size_t marker_values(char c)
{
    return c == ARGS_INT || c == ARGS_HEX ? 1 : c == ARGS_DECIMAL ? 2 : 0;
}

size_t store_args_values(const char *form, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += marker_values(form[i]);
    return n;
}

int store_args_form_of(struct store *st, str_id text, uint32_t *out)
{
    struct args_pool *pool = &st->args;
    struct args_form form = { .text = text, .base = pool->nbase };
    const uint64_t *known = u64map_get(&pool->by_text, form.text);

    assert(!st->frozen || st->args_wait.reading);
    if (known) {
        *out = (uint32_t)*known;
        return 0;
    }
    form.nvalue = (uint32_t)store_args_values(strpool_get(&st->strings, text),
                                              strpool_len(&st->strings, text));
    if (column_reserve(&pool->forms, (pool->nform + 1) * sizeof(form)) ||
        column_reserve(&pool->bases, (pool->nbase + form.nvalue) * sizeof(int64_t)) ||
        u64map_put(&pool->by_text, form.text, pool->nform))
        return OPM_ENOMEM;
    ((struct args_form *)pool->forms.data)[pool->nform] = form;
    pool->nbase += form.nvalue;
    *out = (uint32_t)pool->nform++;
    return 0;
}

int store_args_form(struct store *st, const char *text, size_t len, uint32_t *out)
{
    str_id id;

    return store_str(st, text, len, &id) ? OPM_ENOMEM : store_args_form_of(st, id, out);
}

static void put_hex(struct buf *out, uint64_t v)
{
    buf_addf(out, "0x%" PRIx64, v);
}

/* mantissa / 10^digits, all digits kept. */
static void put_decimal(struct buf *out, int64_t mantissa, int64_t digits)
{
    uint64_t v = mantissa < 0 ? -(uint64_t)mantissa : (uint64_t)mantissa;
    char text[48];
    int n = snprintf(text, sizeof(text), "%0*" PRIu64, (int)MIN(MAX(digits, 0) + 1, 20), v);

    digits = MIN(MAX(digits, 0), n - 1);
    if (mantissa < 0)
        buf_addc(out, '-');
    buf_add(out, text, (size_t)(n - digits));
    if (digits) {
        buf_addc(out, '.');
        buf_add(out, text + n - digits, (size_t)digits);
    }
}

void store_args_text(const char *form, size_t len, const int64_t *value, struct buf *out)
{
    size_t from = 0;

    for (size_t i = 0; i < len; i++) {
        size_t n = marker_values(form[i]);

        if (!n)
            continue;
        buf_add(out, form + from, i - from);
        if (form[i] == ARGS_INT)
            buf_addf(out, "%" PRId64, value[0]);
        else if (form[i] == ARGS_HEX)
            put_hex(out, (uint64_t)value[0]);
        else
            put_decimal(out, value[0], value[1]);
        value += n;
        from = i + 1;
    }
    buf_add(out, form + from, len - from);
}

/* The text of form with values, interned. */
static int intern_text(struct store *st, const struct args_form *f, const int64_t *value,
                       str_id *out)
{
    struct buf text = { 0 };
    int rc = OPM_ENOMEM;

    store_args_text(strpool_get(&st->strings, f->text), strpool_len(&st->strings, f->text), value,
                    &text);
    if (!text.failed)
        rc = strpool_intern(&st->strings, buf_str(&text), text.len, out);
    buf_release(&text);
    return rc;
}

int store_span_set_args_form(struct store *st, uint32_t build_id, uint32_t form,
                             const int64_t *value)
{
    struct args_pool *pool = &st->args;
    struct args_form *f = (struct args_form *)pool->forms.data + form;
    int64_t *base;
    uint8_t *p;

    assert((!st->frozen || st->args_wait.reading) && form < pool->nform);
    if (f->nvalue == 0)
        return store_span_set_args(st, build_id, f->text);
    base = pool->bases.i64 + f->base;
    if (UNLIKELY(pool->len >= ARGS_PACKED - 1)) {
        str_id id;

        return intern_text(st, f, value, &id) ? OPM_ENOMEM : store_span_set_args(st, build_id, id);
    }
    if (UNLIKELY(pool->len + VARINT_MAX * (f->nvalue + 1) > pool->bytes.alloc) &&
        column_reserve(&pool->bytes, pool->len + VARINT_MAX * (f->nvalue + 1)))
        return OPM_ENOMEM;
    if (!f->used) {
        memcpy(base, value, f->nvalue * sizeof(*base));
        f->used = true;
    }
    if (store_span_set_args(st, build_id, ARGS_PACKED | (uint32_t)pool->len))
        return OPM_ENOMEM;
    p = (uint8_t *)pool->bytes.data + pool->len;
    p = put_varint(p, form);
    for (uint32_t i = 0; i < f->nvalue; i++)
        p = put_varint(p, zigzag((int64_t)((uint64_t)value[i] - (uint64_t)base[i])));
    pool->len = (size_t)(p - (uint8_t *)pool->bytes.data);
    return 0;
}

void args_wait_release(struct args_wait *w)
{
    if (w->later.release)
        w->later.release(w->later.user);
    w->later = (struct args_later){ 0 };
}

int store_args_later(struct store *st, const struct args_later *later)
{
    struct args_wait *w = &st->args_wait;

    assert(!st->frozen);
    /* Those of another file, which has come before. */
    if (store_args_read(st)) {
        later->release(later->user);
        return OPM_ENOMEM;
    }
    w->later = *later;
    w->ever = true;
    atomic_store_explicit(&w->waiting, true, memory_order_release);
    return 0;
}

int store_args_read(const struct store *st)
{
    /* As strings, args are a part of a frozen store that may grow. */
    struct store *own = (struct store *)(uintptr_t)st;
    struct args_wait *w = &own->args_wait;
    int rc = 0;

    if (LIKELY(!atomic_load_explicit(&w->waiting, memory_order_acquire)))
        return 0;
    pthread_mutex_lock(&w->mutex);
    if (atomic_load_explicit(&w->waiting, memory_order_relaxed)) {
        w->reading = true;
        rc = w->later.read(own, w->later.user);
        w->reading = false;
        if (!rc) {
            args_wait_release(w);
            atomic_store_explicit(&w->waiting, false, memory_order_release);
        }
    }
    pthread_mutex_unlock(&w->mutex);
    return rc;
}

str_id store_span_args_form(const struct store *st, size_t row, int64_t *value, size_t max,
                            size_t *out_n)
{
    const struct column *args = &st->table[TABLE_span].col[span_col_args];
    const struct args_form *f;
    const uint8_t *p;
    uint64_t v;

    if (!args->data || !(args->id[row] & ARGS_PACKED))
        return 0;
    p = get_varint((const uint8_t *)st->args.bytes.data + (args->id[row] & ~ARGS_PACKED), &v);
    f = (const struct args_form *)st->args.forms.data + v;
    *out_n = f->nvalue;
    for (uint32_t i = 0; i < MIN(f->nvalue, max); i++) {
        p = get_varint(p, &v);
        value[i] = (int64_t)((uint64_t)st->args.bases.i64[f->base + i] + (uint64_t)unzigzag(v));
    }
    return f->text;
}

bool store_has_args(const struct store *st)
{
    return st->table[TABLE_span].col[span_col_args].data != NULL ||
           atomic_load_explicit(&st->args_wait.waiting, memory_order_acquire);
}

str_id store_span_text_args(const struct store *st, size_t row)
{
    const struct column *args = &st->table[TABLE_span].col[span_col_args];

    return args->data && !(args->id[row] & ARGS_PACKED) ? args->id[row] : 0;
}

/* Append the text of what a cell of the args column stands for. */
static int ref_text(const struct store *st, uint32_t ref, struct buf *out)
{
    const struct args_pool *pool = &st->args;
    const struct args_form *f;
    const int64_t *base;
    const uint8_t *p;
    int64_t few[32], *value = few;
    uint64_t v;

    if (!(ref & ARGS_PACKED)) {
        buf_add(out, strpool_get(&st->strings, ref), strpool_len(&st->strings, ref));
        return out->failed ? OPM_ENOMEM : 0;
    }
    p = get_varint((const uint8_t *)pool->bytes.data + (ref & ~ARGS_PACKED), &v);
    f = (const struct args_form *)pool->forms.data + v;
    base = pool->bases.i64 + f->base;
    if (f->nvalue > ARRAY_SIZE(few)) {
        value = mem_alloc(f->nvalue * sizeof(*value));
        if (!value)
            return OPM_ENOMEM;
    }
    for (uint32_t i = 0; i < f->nvalue; i++) {
        p = get_varint(p, &v);
        value[i] = (int64_t)((uint64_t)base[i] + (uint64_t)unzigzag(v));
    }
    store_args_text(strpool_get(&st->strings, f->text), strpool_len(&st->strings, f->text), value,
                    out);
    if (value != few)
        mem_free(value);
    return out->failed ? OPM_ENOMEM : 0;
}

bool store_args_packed(const struct store *st)
{
    return st->args.len > 0 || st->args_wait.ever;
}

int store_span_args(const struct store *st, size_t row, struct buf *out)
{
    const struct column *args = &st->table[TABLE_span].col[span_col_args];

    assert(row < st->table[TABLE_span].nrow);
    if (store_args_read(st))
        return OPM_ENOMEM;
    return args->data && args->id[row] ? ref_text(st, args->id[row], out) : 0;
}

int store_build_args(const struct store *st, uint32_t build_id, struct buf *out)
{
    assert(!st->frozen);
    return store_span_args(st, build_id, out);
}

int args_intern(const struct store *st, uint32_t ref, str_id *out)
{
    /* The strings are the one part of a frozen store that may grow; see struct lazy. */
    struct strpool *strings = (struct strpool *)(uintptr_t)&st->strings;
    struct buf text = { 0 };
    int rc = 0;

    *out = ref;
    if (ref & ARGS_PACKED) {
        rc = ref_text(st, ref, &text);
        if (!rc)
            rc = strpool_intern(strings, buf_str(&text), text.len, out);
        buf_release(&text);
    }
    return rc;
}

void args_release(struct args_pool *pool)
{
    column_release(&pool->forms);
    column_release(&pool->bases);
    column_release(&pool->bytes);
    u64map_release(&pool->by_text);
}
