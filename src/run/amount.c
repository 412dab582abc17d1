/* amount.c -- small values of the command line: amounts, sizes, names; see run.h. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/quantile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT_MAX 100000000
#define SECONDS_MAX 86400.0

#define RATE_MIN 0.001

int run_amount_parse(const char *text, struct run_amount *out, opm_error *err)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = { { "ns", 1 },  { "us", 1e3 },  { "µs", 1e3 },   { "ms", 1e6 },
                  { "s", 1e9 }, { "sec", 1e9 }, { "min", 60e9 }, { "m", 60e9 } };
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (end == text || errno || !isfinite(v) || v < 0 || strspn(text, "0123456789.") == 0)
        return opm__fail(err, OPM_EINVAL,
                         "'%s' is neither a count such as 10 nor a time such as 200ms", text);
    while (*end == ' ')
        end++;
    if (!*end) {
        if (v != floor(v) || v > COUNT_MAX)
            return opm__fail(err, OPM_EINVAL, "'%s' is no count from 0 to %d", text, COUNT_MAX);
        *out = (struct run_amount){ (int64_t)v, 0 };
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (strcmp(end, units[i].unit) != 0)
            continue;
        if (v * units[i].ns > SECONDS_MAX * 1e9 || v * units[i].ns < 1)
            return opm__fail(err, OPM_EINVAL, "'%s' is no time from 1ns to a day", text);
        *out = (struct run_amount){ 0, (int64_t)(v * units[i].ns) };
        return 0;
    }
    return opm__fail(err, OPM_EINVAL, "'%s': no such unit; there are ns, us, ms, s and min", text);
}

int run_bytes_parse(const char *text, int64_t *out, opm_error *err)
{
    static const struct {
        const char *unit;
        double bytes;
    } units[] = { { "", 1 },         { "B", 1 },       { "k", 1e3 },      { "kB", 1e3 },
                  { "M", 1e6 },      { "MB", 1e6 },    { "G", 1e9 },      { "GB", 1e9 },
                  { "T", 1e12 },     { "TB", 1e12 },   { "KiB", 0x1p10 }, { "MiB", 0x1p20 },
                  { "GiB", 0x1p30 }, { "TiB", 0x1p40 } };
    char *end;
    double v;

    errno = 0;
    v = strtod(text, &end);
    if (end != text && !errno && isfinite(v) && strspn(text, "0123456789."))
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
            if (strcmp(end + strspn(end, " "), units[i].unit) == 0 && v * units[i].bytes >= 1 &&
                v * units[i].bytes < 0x1p62) {
                *out = (int64_t)(v * units[i].bytes);
                return 0;
            }
    return opm__fail(err, OPM_EINVAL, "'%s' is no size such as 4GB or 512MiB", text);
}

static int64_t number_in(const char *path)
{
    char text[32] = "";
    FILE *f = fopen(path, "re");
    int64_t v = 0;

    if (f && fgets(text, sizeof(text), f))
        v = strtoll(text, NULL, 10); /* "max": no limit */
    if (f)
        fclose(f);
    return v;
}

int64_t run_memory_default(void)
{
    static const char *const groups[] = { "/sys/fs/cgroup/memory.max",
                                          "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
    int64_t most = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);

    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        int64_t v = number_in(groups[i]);

        if (v > 0 && v < most)
            most = v;
    }
    return most / 4 * 3;
}

int run_dim_parse(const char *text, struct run_dim *out, opm_error *err)
{
    const char *equals = strrchr(text, '=');
    char *end, *name;
    long long v;

    errno = 0;
    v = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (!equals || equals == text || end == equals + 1 || *end || errno || v < 1)
        return opm__fail(err, OPM_EINVAL, "'%s' is not NAME=N with a size N of at least 1", text);
    name = mem_strdup(text);
    if (!name)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    name[equals - text] = '\0';
    *out = (struct run_dim){ name, v };
    return 0;
}

void run_model_label(const char *model, char *out, size_t size)
{
    static const char *const tails[] = { ".gz", ".zst", ".onnx" };
    bool zoo = strncmp(model, "zoo:", 4) == 0;
    size_t n = strlen(model), from = zoo ? 4 : 0;

    while (!zoo && n > 1 && model[n - 1] == '/') /* a folder */
        n--;
    for (size_t i = 0; !zoo && i < n; i++)
        if (model[i] == '/')
            from = i + 1;
    snprintf(out, size, "%.*s", (int)(n - MIN(from, n)), model + from);
    out[strcspn(out, "?")] = '\0';
    if (strcmp(out, ".") == 0 || strcmp(out, "..") == 0)
        out[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
        size_t nt = strlen(tails[i]);

        n = strlen(out);
        if (n > nt && strcmp(out + n - nt, tails[i]) == 0)
            out[n - nt] = '\0';
    }
    for (char *c = out; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == '/' || *c == 0x7f)
            *c = '_';
    if (!*out)
        snprintf(out, size, "model");
}

void run_latency_of(int64_t *ns, size_t n, struct run_latency *out)
{
    static const double q[] = { PERCENTILE(50), PERCENTILE(90), PERCENTILE(95),
                                PERCENTILE(97), PERCENTILE(99), PERCENTILE(99.9) };
    double sum = 0, v[ARRAY_SIZE(q)];

    *out = (struct run_latency){ .n = n };
    if (!n)
        return;
    out->min = out->max = (double)ns[0];
    for (size_t i = 0; i < n; i++) {
        sum += (double)ns[i];
        out->min = MIN(out->min, (double)ns[i]);
        out->max = MAX(out->max, (double)ns[i]);
    }
    out->mean = sum / (double)n;
    quantiles_i64(ns, n, q, ARRAY_SIZE(q), v);
    out->median = v[0];
    out->p90 = v[1];
    out->p95 = v[2];
    out->p97 = v[3];
    out->p99 = v[4];
    out->p999 = v[5];
}

/* From the quartiles, so that single disturbances do not count: for a normal distribution the
 * standard deviation is their distance / 1.349, the median's standard error 1.253 times that of
 * the mean. */
void run_cost_of(int64_t *ns, size_t n, double *cost, double *error)
{
    static const double q[] = { 0.25, 0.5, 0.75 };
    double v[ARRAY_SIZE(q)];

    *cost = *error = 0;
    if (!n)
        return;
    quantiles_i64(ns, n, q, ARRAY_SIZE(q), v);
    *cost = v[1];
    *error = 2 * 1.253 * (v[2] - v[0]) / 1.349 / sqrt((double)n);
}

int run_rate_parse(const char *text, double *out_hz, opm_error *err)
{
    char *end;

    *out_hz = strtod(text, &end);
    if (end == text || *end || !(*out_hz >= 0) || *out_hz > SAMPLER_HZ_MAX ||
        (*out_hz > 0 && *out_hz < RATE_MIN))
        return opm__fail(err, OPM_EINVAL, "'%s' is no number from %g to %d, nor 0", text, RATE_MIN,
                         SAMPLER_HZ_MAX);
    return 0;
}
