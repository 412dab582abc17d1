/* found.c -- see found.h. */
#include "store/found.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool begins(const char *s, const char *text)
{
    while (*text && lower(*s) == lower(*text)) {
        s++;
        text++;
    }
    return !*text;
}

static bool holds(const char *name, const char *text)
{
    for (; name && *name; name++)
        if (begins(name, text))
            return true;
    return false;
}

static int collect(const struct store *st, const bool *keep, struct found *f)
{
    size_t n = store_nrow(st, TABLE_span), at = 0;
    const uint32_t *site = store_span_site(st);
    const int64_t *dur;
    const void *data;
    int64_t total_ns = 0;

    if (store_column(st, TABLE_span, span_col_dur, &data) < 0)
        return OPM_ENOMEM;
    dur = data;
    for (size_t i = 0; i < n; i++)
        f->n += keep[site[i]];
    f->span = mem_alloc((f->n + 1) * sizeof(*f->span));
    if (!f->span)
        return OPM_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!keep[site[i]])
            continue;
        f->span[at++] = (uint32_t)i;
        if (dur[i] > 0)
            total_ns = dur[i] > INT64_MAX - total_ns ? INT64_MAX : total_ns + dur[i];
    }
    f->total_ns = total_ns;
    return 0;
}

int found_new(const struct store *st, const char *text, struct found **out)
{
    size_t nsite;
    const struct site *sites = store_sites(st, &nsite);
    struct found *f = mem_calloc(1, sizeof(*f));
    bool *keep = mem_calloc(nsite + 1, sizeof(*keep));
    int rc = f && keep ? 0 : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < nsite; i++)
        keep[i] = *text && holds(store_text(st, sites[i].name), text);
    if (rc == 0)
        rc = collect(st, keep, f);
    if (rc == 0)
        rc = lod_new(st, keep, &f->lod);
    mem_free(keep);
    if (rc < 0)
        found_free(f);
    else
        *out = f;
    return rc;
}

void found_free(struct found *f)
{
    if (!f)
        return;
    lod_free(f->lod);
    mem_free(f->span);
    mem_free(f);
}
