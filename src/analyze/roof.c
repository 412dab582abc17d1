/* roof.c -- see roof.h. */
#include "analyze/roof.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum roof {
#define X(roof, word) ROOF_##roof,
    ROOF_WORDS(X)
#undef X
};

static const char *text_of(const struct store *st, enum table_id table, size_t row, int col)
{
    struct cell c = store_cell(st, table, row, col);

    return c.kind == CELL_STR ? store_text(st, c.str) : NULL;
}

static void read_figures(struct peak *p, const struct store *st, const char *whose)
{
    const struct {
        const char *name;
        double *figure;
    } figures[] = {
#define X(member, name) { name, &p->member },
        PEAK_FIGURES(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
        const char *text;
        char key[64];

        snprintf(key, sizeof(key), "%s.%s", whose, figures[i].name);
        text = store_meta_get(st, key);
        *figures[i].figure = text ? strtod(text, NULL) : 0;
        if (!(*figures[i].figure > 0 && isfinite(*figures[i].figure)))
            *figures[i].figure = 0;
    }
}

static bool has_any(const struct peak *p)
{
    return p->fp32_gflops > 0 && p->memory_gbytes > 0;
}

/* Of 8 bits or fewer, however a source spells it: "int8", "u8", "UINT4". */
static bool is_bytes(const char *dtype)
{
    if (*dtype == 'u' || *dtype == 'U')
        dtype++;
    if (strncasecmp(dtype, "int", 3) == 0)
        dtype += 3;
    else if (*dtype == 's' || *dtype == 'S')
        dtype++;
    return (*dtype == '8' || *dtype == '4' || *dtype == '2') && !dtype[1];
}

int roofs_read(struct roofs *r, const struct store *st)
{
    const char *here = store_meta_get(st, "reader.host"),
               *host = store_meta_get(st, "machine.host");

    *r = (struct roofs){ .st = st };
    read_figures(&r->peak, st, "machine");
    if (!has_any(&r->peak) && here && host && strcmp(here, host) == 0)
        read_figures(&r->peak, st, "reader");
    r->known = has_any(&r->peak);
    if (!r->known)
        return 0;
    r->bytes = mem_calloc(store_nrow(st, TABLE_op) + 1, sizeof(*r->bytes));
    if (!r->bytes)
        return OPM_ENOMEM;
    for (size_t i = 0, n = store_nrow(st, TABLE_op_tensor); i < n; i++) {
        struct cell op = store_cell(st, TABLE_op_tensor, i, op_tensor_col_op);
        const char *io = text_of(st, TABLE_op_tensor, i, op_tensor_col_io),
                   *dtype = text_of(st, TABLE_op_tensor, i, op_tensor_col_dtype);

        if (op.kind == CELL_I64 && io && dtype && strcmp(io, "output") != 0 && is_bytes(dtype))
            r->bytes[op.i64] = true;
    }
    return 0;
}

void roofs_release(struct roofs *r)
{
    mem_free(r->bytes);
    r->bytes = NULL;
}

/* How an operator is computed, as the engine says in "algorithm" of its attributes. */
static void read_algorithm(const char *attributes, char *out, size_t size)
{
    struct json_reader r;
    struct buf text = { 0 };

    out[0] = '\0';
    if (!attributes || !strstr(attributes, "\"algorithm\""))
        return;
    r = json_read_of(attributes, strlen(attributes));
    if (json_read_next(&r) != JSON_OBJECT)
        return;
    while (json_read_next(&r) == JSON_KEY) {
        if (!json_read_is(&r, "algorithm")) {
            json_read_skip(&r);
        } else if (json_read_next(&r) == JSON_STRING) {
            json_read_text(&r, &text);
            snprintf(out, size, "%s", buf_str(&text));
            break;
        }
    }
    buf_release(&text);
}

/* Winograd's F(m x m, 3 x 3) multiplies (m + 2)^2 times for m^2 outputs of nine products each. */
static double winograd_gain(const char *algorithm)
{
    long m = strtol(algorithm + strlen("winograd "), NULL, 10);
    double gain = m > 0 && m < 16 ? 3.0 * (double)m / (double)(m + 2) : 1;

    return gain * gain;
}

/* Each level as much as it holds, the fastest first. */
static double data_ns(const struct peak *p, double bytes, enum roof *limit)
{
    const struct {
        double holds, gbytes;
        enum roof roof;
    } level[] = {
        { p->l1_bytes, p->l1_gbytes, ROOF_L1 },
        { p->l2_bytes, p->l2_gbytes, ROOF_L2 },
        { p->l3_bytes, p->l3_gbytes, ROOF_L3 },
        { INFINITY, p->memory_gbytes, ROOF_MEMORY },
    };
    double done = 0, ns = 0;

    for (size_t i = 0; i < ARRAY_SIZE(level) && done < bytes; i++) {
        double part = MIN(level[i].holds, bytes) - done;

        if (level[i].gbytes <= 0 || part <= 0)
            continue;
        ns += part / level[i].gbytes;
        done += part;
        *limit = level[i].roof;
    }
    return ns;
}

void roof_of(const struct roofs *r, size_t op, double ns, struct cell *name, struct cell *share)
{
    static const char *const words[] = {
#define X(roof, word) word,
        ROOF_WORDS(X)
#undef X
    };
    const struct peak *p = &r->peak;
    struct cell flops = store_cell(r->st, TABLE_op, op, op_col_flops),
                bytes = store_cell(r->st, TABLE_op, op, op_col_bytes),
                zeros = store_cell(r->st, TABLE_op, op, op_col_weight_zero_ratio);
    bool narrow = r->known && r->bytes[op] && p->int8_gops > 0, sparse;
    double rate, left = 1, compute, data;
    enum roof limit = ROOF_MEMORY, arithmetic = narrow ? ROOF_INT8 : ROOF_FP32;
    char algorithm[64];

    *name = *share = cell_null();
    if (!r->known || flops.kind != CELL_I64 || flops.i64 <= 0 || bytes.kind != CELL_I64 ||
        bytes.i64 <= 0 || !(ns > 0))
        return;
    read_algorithm(text_of(r->st, TABLE_op, op, op_col_attributes), algorithm, sizeof(algorithm));
    rate = narrow ? p->int8_gops : p->fp32_gflops;
    if (strncmp(algorithm, "winograd ", 9) == 0) {
        rate *= winograd_gain(algorithm);
        arithmetic = ROOF_WINOGRAD;
    }
    sparse = strstr(algorithm, "sparse") != NULL;
    if (sparse) {
        left = zeros.kind == CELL_F64 ? 1 - zeros.f64 : 0;
        arithmetic = narrow ? ROOF_INT8_SPARSE : ROOF_FP32_SPARSE;
    }
    if (!(left > 0))
        return;
    compute = (double)flops.i64 * left / rate;
    data = data_ns(p, (double)bytes.i64 * left, &limit);
    /* Without the caches' speeds: of data that came from one of them nothing can be said. */
    if (p->l1_gbytes <= 0 && data > MAX(compute, ns))
        return;
    limit = compute >= data ? arithmetic : limit;
    *name = cell_str(strpool_find(store_strings(r->st), words[limit], strlen(words[limit])));
    *share = cell_f64(MAX(compute, data) / ns);
}
