/* measuring.c -- see measuring.h; and the analysis of that name. */
#include "analyze/measuring.h"

#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A fact of the first file that has it: those of other parts are "file1.KEY". */
static double fact(const struct store *st, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < store_nrow(st, TABLE_meta); i++) {
        struct cell k = store_cell(st, TABLE_meta, i, meta_col_key);
        struct cell v = store_cell(st, TABLE_meta, i, meta_col_value);
        const char *text = k.kind == CELL_STR ? store_text(st, k.str) : "";
        size_t n = strlen(text);

        if (n < len || strcmp(text + n - len, key) != 0 || (n > len && text[n - len - 1] != '.') ||
            v.kind != CELL_STR)
            continue;
        return strtod(store_text(st, v.str), NULL);
    }
    return NAN;
}

double measuring_op_ns(const struct store *st)
{
    double each = fact(st, "torch.op_cost_ns"), bytes = fact(st, "torch.op_cost_bytes");
    double byte = fact(st, "torch.op_byte_cost_ns");
    double ranges = fact(st, "torch.op_ranges"), all_bytes = fact(st, "torch.op_text_bytes");

    if (ranges > 0 && bytes >= 0 && byte >= 0 && all_bytes >= 0)
        each += byte * (all_bytes / ranges - bytes);
    return each >= 0 && each < 1e9 ? each : NAN;
}

static bool is_text(const struct store *st, str_id id, const char *text)
{
    return id && strcmp(store_text(st, id), text) == 0;
}

bool measuring_of_site(const struct store *st, const struct site *site)
{
    return is_text(st, site->layer, "framework") &&
           (is_text(st, site->cat, "op") || is_text(st, site->cat, "cpu_op"));
}

/* How many spans there are of the sites that are asked for, and their time. */
struct sum {
    int64_t count, total_ns;
};

static struct sum sum_of(const struct store *st, const bool *wanted)
{
    const uint32_t *site = store_span_site(st);
    struct sum sum = { 0 };
    const void *dur = NULL;

    if (store_column(st, TABLE_span, span_col_dur, &dur) < 0 || !dur)
        return sum;
    for (size_t i = 0; i < store_nrow(st, TABLE_span); i++) {
        if (!wanted[site[i]])
            continue;
        sum.count++;
        sum.total_ns = add_ns(sum.total_ns, MAX(((const int64_t *)dur)[i], (int64_t)0));
    }
    return sum;
}

static int add_row(const struct store *st, struct table *out, const char *what, int64_t count,
                   double total_ns)
{
    struct cell c[measuring_col_COUNT] = { 0 };

    c[measuring_col_what] = cell_str(strpool_find(store_strings(st), what, strlen(what)));
    c[measuring_col_count] = cell_i64(count);
    c[measuring_col_each_ns] = count > 0 ? cell_f64(total_ns / (double)count) : cell_null();
    c[measuring_col_total_ns] = cell_f64(total_ns);
    return table_add(out, c);
}

int analyze_measuring(const struct store *st, struct table *out, opm_error *err)
{
    static const struct {
        const char *what, *cat;
    } recorded[] = { { MEASURING_CUPTI, "overhead" }, { MEASURING_WRITING, "opmeter" } };
    double op_ns = measuring_op_ns(st), span_ns = fact(st, "recorder.span_cost_ns");
    double rounds = fact(st, "record.sample_rounds"), cpu_ns = fact(st, "record.sample_cpu_ns");
    double records = fact(st, "cuda.records"), convert_ns = fact(st, "cuda.convert_cpu_ns");
    size_t nsite, nspan = store_nrow(st, TABLE_span);
    const struct site *site = store_sites(st, &nsite);
    bool *wanted = mem_calloc(nsite + 1, sizeof(*wanted));
    struct sum sum;
    int rc = wanted ? 0 : OPM_ENOMEM;

    if (rc == 0 && !isnan(op_ns)) {
        for (size_t i = 0; i < nsite; i++)
            wanted[i] = measuring_of_site(st, &site[i]);
        sum = sum_of(st, wanted);
        if (sum.count)
            rc = add_row(st, out, MEASURING_OPERATORS, sum.count, op_ns * (double)sum.count);
    }
    for (size_t k = 0; k < ARRAY_SIZE(recorded) && rc == 0; k++) {
        bool any = false;

        for (size_t i = 0; i < nsite; i++) {
            wanted[i] = is_text(st, site[i].cat, recorded[k].cat);
            any |= wanted[i];
        }
        sum = any ? sum_of(st, wanted) : (struct sum){ 0 };
        if (sum.count)
            rc = add_row(st, out, recorded[k].what, sum.count, (double)sum.total_ns);
    }
    if (rc == 0 && records > 0 && convert_ns >= 0)
        rc = add_row(st, out, MEASURING_RECORDS, (int64_t)records, convert_ns);
    if (rc == 0 && span_ns > 0 && nspan)
        rc = add_row(st, out, MEASURING_SPANS, (int64_t)nspan, span_ns * (double)nspan);
    if (rc == 0 && rounds > 0 && cpu_ns >= 0)
        rc = add_row(st, out, MEASURING_SAMPLES, (int64_t)rounds, cpu_ns);
    mem_free(wanted);
    return rc < 0 ? opm__fail(err, rc, "measuring: out of memory") : 0;
}
