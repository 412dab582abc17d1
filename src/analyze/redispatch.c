/* redispatch.c -- see redispatch.h. */
#include "analyze/redispatch.h"

#include "base/alloc.h"
#include <string.h>

#define OWN_WORK (OPM_NULL_ID - 1)

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

struct pass {
    struct redispatch *r;
    const struct site *site;
    const uint32_t *of, *parent; /* per span: its site, what it is in */
    const int64_t *dur;
    const bool *is; /* per site: a name of the dispatcher's */
};

/* The one call in each that has its name; OWN_WORK where there are several. */
static int find_inner(struct pass *p)
{
    uint32_t **to = &p->r->to;

    for (size_t i = 0; i < p->r->n; i++) {
        uint32_t up = p->is[p->of[i]] ? p->parent[i] : OPM_NULL_ID;

        /* One of no length may as well come after the other: the clock was too coarse to tell. */
        if (up == OPM_NULL_ID || !p->is[p->of[up]] || p->dur[i] == 0 ||
            p->site[p->of[up]].name != p->site[p->of[i]].name)
            continue;
        if (!*to) {
            *to = mem_map(p->r->n * sizeof(**to));
            if (!*to)
                return OPM_ENOMEM;
            memset(*to, 0xff, p->r->n * sizeof(**to));
        }
        (*to)[up] = (*to)[up] == OPM_NULL_ID ? (uint32_t)i : OWN_WORK;
    }
    return 0;
}

static void keep_workers(struct pass *p, str_id runtime)
{
    uint32_t *to = p->r->to;

    for (size_t i = 0; runtime && i < p->r->n; i++)
        if (p->site[p->of[i]].layer == runtime && p->parent[i] != OPM_NULL_ID &&
            to[p->parent[i]] != OPM_NULL_ID)
            to[p->parent[i]] = OWN_WORK;
    /* Backwards: what a call is passed on to comes after it, and is known by then. */
    for (size_t i = p->r->n; i-- > 0;) {
        if (to[i] == OWN_WORK)
            to[i] = OPM_NULL_ID;
        else if (to[i] != OPM_NULL_ID && to[to[i]] != OPM_NULL_ID)
            to[i] = to[to[i]];
    }
}

int redispatch_find(struct redispatch *r, const struct store *st)
{
    str_id runtime = strpool_find(store_strings(st), "runtime", 7);
    const void *parent = NULL, *dur = NULL;
    size_t nsite;
    bool any = false, *is = dispatched_sites(st, &any);
    struct pass p = {
        .r = r, .site = store_sites(st, &nsite), .of = store_span_site(st), .is = is
    };
    int rc = is ? 0 : OPM_ENOMEM;

    *r = (struct redispatch){ .n = store_nrow(st, TABLE_span) };
    if (rc == 0 && any &&
        (store_column(st, TABLE_span, span_col_parent, &parent) < 0 ||
         store_column(st, TABLE_span, span_col_dur, &dur) < 0))
        rc = OPM_ENOMEM;
    p.parent = parent;
    p.dur = dur;
    if (rc == 0 && parent && dur)
        rc = find_inner(&p);
    if (rc == 0 && r->to)
        keep_workers(&p, runtime);
    mem_free(is);
    return rc;
}

void redispatch_release(struct redispatch *r)
{
    if (r->to)
        mem_unmap(r->to, r->n * sizeof(*r->to));
    *r = (struct redispatch){ 0 };
}
