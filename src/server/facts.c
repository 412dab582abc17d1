/* facts.c -- see facts.h. */
#include "server/facts.h"

#include "base/utf8.h"
#include "server/answer.h"

#include <stdio.h>
#include <string.h>

static const char model_sql[] =
    "SELECT value FROM (SELECT 0 AS place, value FROM meta WHERE key = 'model.name' UNION ALL"
    " SELECT * FROM (SELECT 1, model FROM step LIMIT 1)) WHERE value <> '' ORDER BY place LIMIT 1";

static const char recorded_sql[] =
    "SELECT (CAST(value AS INTEGER) + coalesce((SELECT CAST(value AS INTEGER) FROM meta"
    " WHERE key = 'trace.start_ns'), 0)) / 1000000000 FROM meta"
    " WHERE key = 'clock.start_realtime_ns'";

static const char latency_sql[] =
    "SELECT median_ns FROM latency WHERE scope = 'step' AND count > 0 ORDER BY count DESC LIMIT 1";

static int read_latency(struct facts *out, opm_trace *t, opm_error *err)
{
    opm_rows *r = NULL;
    int more, rc = opm_trace_query(t, latency_sql, &r, err);

    if (rc < 0)
        return rc;
    more = opm_rows_next(r, err);
    out->latency_ns = more > 0 ? opm_rows_real(r, 0) : -1;
    opm_rows_close(r);
    return MIN(more, 0);
}

/* As much of a name as there is room for, not cut within a character. */
static void copy_text(char *to, size_t size, const char *s, size_t len)
{
    size_t n = 0;
    uint32_t code;

    while (n < len) {
        size_t step = utf8_next(s + n, len - n, &code);

        if (n + step >= size)
            break;
        n += step;
    }
    memcpy(to, s, n);
    to[n] = '\0';
}

int facts_read(struct facts *out, opm_trace *t, opm_error *err)
{
    struct buf model = { 0 };
    int rc;

    *out = (struct facts){ .recorded_s = -1, .latency_ns = -1 };
    rc = answer_text(t, model_sql, &model, err);
    copy_text(out->model, sizeof(out->model), buf_str(&model), model.len);
    buf_release(&model);
    if (rc == 0)
        rc = answer_int(t, recorded_sql, &out->recorded_s, err);
    out->spans = opm_trace_rows(t, "span");
    return rc < 0 ? rc : read_latency(out, t, err);
}

static void add_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, key);
    json_cstr(w, text && *text ? text : NULL);
}

static void add_number(struct json_writer *w, const char *key, bool known, double value)
{
    json_key(w, key);
    if (known)
        json_f64(w, value);
    else
        json_null(w);
}

void facts_answer(struct json_writer *w, const struct facts *f)
{
    bool good = f && !f->error[0];

    add_text(w, "model", f ? f->model : NULL);
    add_number(w, "recorded", good && f->recorded_s >= 0, good ? (double)f->recorded_s : 0);
    add_number(w, "latency_ns", good && f->latency_ns >= 0, good ? f->latency_ns : 0);
    add_number(w, "spans", good && f->spans >= 0, good ? (double)f->spans : 0);
    add_text(w, "error", f ? f->error : NULL);
}
