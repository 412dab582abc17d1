/* zoo.c -- names and options of the models that can be made; see zoo.h. */
#include "graph/zoo.h"

#include "base/error.h"
#include "base/nearest.h"
#include "graph/zoo_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPSET_MIN 13
#define OPSET_MAX 21
#define OPSET_DEFAULT 17
#define BATCH_MAX 65536
#define SEQ_MAX 4096
#define POSITIONS_MAX 1048576
#define TEXT_MAX 64

static const struct zoo_entry entries[] = {
#define ZOO(name, maker, about, options) { name, about, options },
#include "graph/zoo.def"
#undef ZOO
};

static zoo_maker *const makers[] = {
#define ZOO(name, maker, about, options) maker,
#include "graph/zoo.def"
#undef ZOO
};

const struct zoo_entry *zoo_list(size_t *n)
{
    *n = ARRAY_SIZE(entries);
    return entries;
}

/* A request, taken apart. */
struct request {
    size_t model;
    int opset;
    uint64_t seed;
    double sparsity;
    int sparse_rows;
    enum tensor_type real;
    bool int8;
    struct zoo_options options;
    char batch_name[TEXT_MAX];
};

/* As Optimum names the files. */
const char *const zoo_parts[] = { "encoder_model", "decoder_model", "decoder_with_past_model",
                                  "decoder_model_merged", NULL };

/* Is word one of the words in list? */
static bool in_list(const char *list, const char *word, size_t len)
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " ");

        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

bool zoo_takes(const char *name, const char *option)
{
    size_t len;

    if (strncmp(name, "zoo:", 4) != 0)
        return false;
    name += 4;
    len = strcspn(name, "?");
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
        if (strlen(entries[i].name) == len && memcmp(entries[i].name, name, len) == 0)
            return in_list(entries[i].options, option, strlen(option));
    return false;
}

static bool parse_int(const char *s, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    long long v;

    if (s[0] < '0' || s[0] > '9')
        return false;
    errno = 0;
    v = strtoll(s, &end, 10);
    if (*end || errno || v < low || v > high)
        return false;
    *out = v;
    return true;
}

/* A decimal fraction; strtod() would listen to the locale. */
static bool parse_ratio(const char *s, double *out)
{
    double v = 0, place = 1;
    bool dot = false, digits = false;

    for (; *s; s++) {
        if (*s == '.' && !dot)
            dot = true;
        else if (*s >= '0' && *s <= '9') {
            digits = true;
            v = v * 10 + (*s - '0');
            place = dot ? place * 10 : place;
        } else
            return false;
    }
    *out = v / place;
    return digits && *out <= 1;
}

static bool is_name(const char *s)
{
    for (const char *p = s; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
              (p > s && *p >= '0' && *p <= '9')))
            return false;
    return *s != '\0';
}

/* What weights and activations are. */
static bool set_dtype(struct request *q, const char *value)
{
    static const struct {
        const char *name;
        enum tensor_type real;
        bool int8;
    } dtypes[] = { { "fp32", TENSOR_F32, false },
                   { "fp16", TENSOR_F16, false },
                   { "bf16", TENSOR_BF16, false },
                   { "int8", TENSOR_F32, true } };

    for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++)
        if (strcmp(dtypes[i].name, value) == 0) {
            q->real = dtypes[i].real;
            q->int8 = dtypes[i].int8;
            return true;
        }
    return false;
}

static bool set_option(struct request *q, const char *key, const char *value)
{
    int64_t v;

    if (strcmp(key, "batch") == 0) {
        if (parse_int(value, 1, BATCH_MAX, &q->options.batch))
            return true;
        if (!is_name(value))
            return false;
        memcpy(q->batch_name, value, strlen(value) + 1);
        q->options.batch_name = q->batch_name;
        return true;
    }
    if (strcmp(key, "seq") == 0)
        return parse_int(value, 1, SEQ_MAX, &q->options.seq);
    if (strcmp(key, "sparsity") == 0)
        return parse_ratio(value, &q->sparsity);
    if (strcmp(key, "pattern") == 0) {
        q->sparse_rows = ow_pattern_rows(value);
        return q->sparse_rows > 0;
    }
    if (strcmp(key, "dtype") == 0)
        return set_dtype(q, value);
    if (strcmp(key, "quant") == 0) {
        q->options.int4 = strcmp(value, "int4") == 0;
        return q->options.int4 || strcmp(value, "none") == 0;
    }
    if (strcmp(key, "part") == 0) {
        for (size_t i = 0; zoo_parts[i]; i++)
            if (strcmp(value, zoo_parts[i]) == 0)
                q->options.part = zoo_parts[i];
        return q->options.part;
    }
    if (strcmp(key, "opset") == 0) {
        if (!parse_int(value, OPSET_MIN, OPSET_MAX, &v))
            return false;
        q->opset = (int)v;
        return true;
    }
    if (strcmp(key, "seed") == 0) {
        if (!parse_int(value, 0, INT64_MAX, &v))
            return false;
        q->seed = (uint64_t)v;
        return true;
    }
    if (strcmp(key, "positions") == 0)
        return parse_int(value, 1, POSITIONS_MAX, &q->options.positions);
    if (!parse_int(value, 0, 1, &v))
        return false;
    *(strcmp(key, "cache") == 0 ? &q->options.cache : &q->options.bn) = v == 1;
    return true;
}

static int unknown_model(const char *name, size_t len, opm_error *err)
{
    char all[256], word[61];
    struct nearest near = { word, NULL, 0 };
    size_t at = 0;

    snprintf(word, sizeof(word), "%.*s", (int)MIN(len, sizeof(word) - 1), name);
    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", i ? ", " : "", entries[i].name);
        nearest_try(&near, entries[i].name);
    }
    if (near.best)
        return opm__fail(err, OPM_ENOTFOUND, "zoo: no model '%s'; did you mean '%s'?", word,
                         near.best);
    return opm__fail(err, OPM_ENOTFOUND, "zoo: no model '%.*s' (there are %s)",
                     (int)MIN(len, (size_t)60), name, all);
}

/* One "key=value" of len bytes. */
static int parse_option(struct request *q, const char *s, size_t len, opm_error *err)
{
    const struct zoo_entry *e = &entries[q->model];
    char text[TEXT_MAX], *eq;

    if (len >= sizeof(text))
        return opm__fail(err, OPM_EINVAL, "zoo:%s: option '%.40s...' is too long", e->name, s);
    memcpy(text, s, len);
    text[len] = '\0';
    eq = strchr(text, '=');
    if (!eq || !in_list(e->options, text, (size_t)(eq - text)))
        return opm__fail(err, OPM_EINVAL, "zoo:%s: no option '%.*s' (it has %s)", e->name,
                         (int)(eq ? (size_t)(eq - text) : len), text, e->options);
    *eq = '\0';
    if (!set_option(q, text, eq + 1))
        return opm__fail(err, OPM_EINVAL, "zoo:%s: option %s cannot be '%s'", e->name, text,
                         eq + 1);
    return 0;
}

static int parse_request(struct request *q, const char *name, opm_error *err)
{
    size_t len;
    int rc = 0;

    *q = (struct request){ .opset = OPSET_DEFAULT,
                           .seed = 1,
                           .sparse_rows = 4,
                           .real = TENSOR_F32,
                           .options = { .batch = 1 } };
    if (strncmp(name, "zoo:", 4) == 0)
        name += 4;
    len = strcspn(name, "?");
    for (q->model = 0; q->model < ARRAY_SIZE(entries); q->model++)
        if (strlen(entries[q->model].name) == len && memcmp(entries[q->model].name, name, len) == 0)
            break;
    if (q->model == ARRAY_SIZE(entries))
        return unknown_model(name, len, err);
    q->options.seq = strcmp(entries[q->model].name, "lstm") == 0           ? 50
                     : strcmp(entries[q->model].name, "whisper-tiny") == 0 ? 4
                                                                           : 128;
    name += len + (name[len] == '?');
    while (!rc && *name) {
        len = strcspn(name, "&");
        rc = parse_option(q, name, len, err);
        name += len + (name[len] == '&');
    }
    if (!rc && q->int8 &&
        (q->options.cache || in_list(entries[q->model].options, "quant", 5) ||
         in_list(entries[q->model].options, "part", 4)))
        rc = opm__fail(err, OPM_EINVAL, "zoo:%s: option dtype cannot be 'int8' with a cache",
                       entries[q->model].name);
    return rc;
}

static int make(const char *name, struct buf *out, struct io_out *file, opm_error *err)
{
    struct request q;
    struct onnx_writer w = { 0 };
    int rc = parse_request(&q, name, err);

    if (rc)
        return rc;
    ow_init(&w, entries[q.model].name, q.opset, q.seed, q.sparsity);
    w.sparse_rows = q.sparse_rows;
    w.real = q.real;
    w.int8 = q.int8;
    makers[q.model](&w, &q.options);
    if (ow_finish(&w, out, file))
        rc = opm__fail(err, OPM_ENOMEM, "zoo:%s: no memory to build it", entries[q.model].name);
    ow_release(&w);
    return rc;
}

int zoo_build(const char *name, struct buf *out, opm_error *err)
{
    return make(name, out, NULL, err);
}

int zoo_write(const char *name, const char *path, opm_error *err)
{
    struct request q;
    struct io_out o = { 0 };
    int rc = parse_request(&q, name, err), closed; /* before a file is made for nothing */

    if (!rc)
        rc = io_out_open(&o, path, err);
    if (rc)
        return rc;
    rc = make(name, NULL, &o, err);
    closed = io_out_close(&o, rc == 0, rc ? NULL : err);
    return rc ? rc : closed;
}
