/* redispatch.c -- see redispatch.h. */
#include "analyze/redispatch.h"

#include "base/alloc.h"
#include <string.h>

/* Names of the dispatcher have a namespace: "aten::add". */
static bool *dispatched_sites(const struct store *st, bool *any)
{
    str_id framework = strpool_find(store_strings(st), "framework", 9);
    size_t n;
    const struct site *site = store_sites(st, &n);
    bool *is = mem_calloc(n + 1, sizeof(*is));

    for (size_t i = 0; is && i < n; i++) {
        is[i] = framework && site[i].layer == framework && site[i].name &&
                strstr(store_text(st, site[i].name), "::");
        *any |= is[i];
    }
    return is;
}

int redispatch_find(struct redispatch *r, const struct store *st)
{
    size_t n = store_nrow(st, TABLE_span), nsite;
    const struct site *site = store_sites(st, &nsite);
    const uint32_t *span_site = store_span_site(st), *parent;
    const void *column = NULL, *dur = NULL;
    bool any = false, *is = dispatched_sites(st, &any);
    int rc = is ? 0 : OPM_ENOMEM;

    *r = (struct redispatch){ .n = n };
    if (rc == 0 && any)
        rc = store_column(st, TABLE_span, span_col_parent, &column) < 0 ||
                     store_column(st, TABLE_span, span_col_dur, &dur) < 0
                 ? OPM_ENOMEM
                 : 0;
    parent = dur ? column : NULL;
    /* Backwards: what a call is passed on to comes after it, and is known by then. */
    for (size_t i = n; parent && rc == 0 && i-- > 0;) {
        uint32_t up = is[span_site[i]] ? parent[i] : OPM_NULL_ID;

        /* One of no length may as well come after the other: the clock was too coarse to tell. */
        if (up == OPM_NULL_ID || !is[span_site[up]] || ((const int64_t *)dur)[i] == 0 ||
            site[span_site[up]].name != site[span_site[i]].name)
            continue;
        if (!r->to) {
            r->to = mem_map(n * sizeof(*r->to));
            if (!r->to) {
                rc = OPM_ENOMEM;
                break;
            }
            memset(r->to, 0xff, n * sizeof(*r->to));
        }
        r->to[up] = r->to[i] == OPM_NULL_ID ? (uint32_t)i : r->to[i];
    }
    mem_free(is);
    return rc;
}

void redispatch_release(struct redispatch *r)
{
    if (r->to)
        mem_unmap(r->to, r->n * sizeof(*r->to));
    *r = (struct redispatch){ 0 };
}
