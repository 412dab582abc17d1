/* attribution.c -- see attribution.h. */
#include "analyze/attribution.h"

#include "analyze/hardware.h"
#include "analyze/span_class.h"
#include "base/alloc.h"
#include "base/u64map.h"
#include "store/correlated.h"
#include <string.h>

struct search {
    struct attribution *to;
    const struct store *st;
    const struct site *sites;
    const uint32_t *site, *parent;
    const int64_t *correlation; /* or NULL */
    size_t nop;
    bool *holds;     /* per site: work only as far as it was launched: it encloses other work */
    uint8_t *orphan; /* per site: 1 + its kind, if it is work of a device and of no operator */
    struct correlated launches;
    struct u64map owners; /* name and kind -> owner */
};

/* What encloses other spans of a device (a run, a range that the program marked) works through
 * them, unless it was launched itself. */
static int find_orphans(struct search *s, bool *any)
{
    uint8_t *class = span_classes(s->st);
    struct hardware h;
    size_t nsite;
    int rc = hardware_find(&h, s->st);

    s->sites = store_sites(s->st, &nsite);
    s->orphan = mem_calloc(nsite + 1, sizeof(*s->orphan));
    s->holds = mem_calloc(nsite + 1, sizeof(*s->holds));
    if (!class || !s->orphan || !s->holds)
        rc = OPM_ENOMEM;
    for (size_t i = 0; i < nsite && rc == 0; i++) {
        if (h.role[i] == HARDWARE_NOT || s->sites[i].op < s->nop)
            continue;
        s->holds[i] = h.role[i] == HARDWARE_HOLDS;
        s->orphan[i] = class[i] == CLASS_COMPUTE ? 1 + OWNER_KERNEL
                       : class[i] == CLASS_COPY  ? 1 + OWNER_COPY
                       : class[i] == CLASS_COMM  ? 1 + OWNER_COMM
                                                 : 0;
        *any |= s->orphan[i] != 0;
    }
    mem_free(class);
    hardware_release(&h);
    return rc;
}

static bool is_graph_launch(const struct store *st, const struct site *site)
{
    const char *name = site->name ? store_text(st, site->name) : "";

    return strstr(name, "GraphLaunch") != NULL;
}

static uint32_t owner_of(struct search *s, str_id name, enum owner_kind kind)
{
    uint64_t key = (uint64_t)name << 8 | kind;
    const uint64_t *at = u64map_get(&s->owners, key);
    size_t n = s->to->nowner;

    if (at)
        return (uint32_t)(s->nop + *at);
    if (u64map_put(&s->owners, key, n))
        return GROUP_NONE;
    s->to->owner[n] = (struct owner){ name, kind };
    s->to->nowner++;
    return (uint32_t)(s->nop + n);
}

/* Of the spans around a launch the innermost that executes an operator, or GROUP_NONE. */
static uint32_t launcher(const struct search *s, uint32_t row)
{
    while (row != OPM_NULL_ID && s->sites[s->site[row]].op >= s->nop)
        row = s->parent ? s->parent[row] : OPM_NULL_ID;
    return row == OPM_NULL_ID ? GROUP_NONE : s->sites[s->site[row]].op;
}

static uint32_t group_of(struct search *s, size_t row)
{
    const struct site *site = &s->sites[s->site[row]], *launch;
    int64_t c = s->correlation ? s->correlation[row] : OPM_NULL_I64;
    uint32_t from = correlated_get(&s->launches, c);
    uint32_t op = from != OPM_NULL_ID ? launcher(s, from) : GROUP_NONE;

    if (op != GROUP_NONE) {
        s->to->launched = true;
        return op;
    }
    if (s->holds[s->site[row]])
        return GROUP_NONE;
    launch = from != OPM_NULL_ID ? &s->sites[s->site[from]] : NULL;
    if (launch && is_graph_launch(s->st, launch))
        return owner_of(s, launch->name, OWNER_GRAPH);
    return owner_of(s, site->name, (enum owner_kind)(s->orphan[s->site[row]] - 1));
}

static int attribute(struct search *s)
{
    size_t nsite;
    int rc = 0;

    store_sites(s->st, &nsite);
    s->to->nspan = store_nrow(s->st, TABLE_span);
    s->to->group = mem_map(s->to->nspan * sizeof(*s->to->group));
    /* A site is one of a kind, or a launch. */
    s->to->owner = mem_alloc((2 * nsite + 1) * sizeof(*s->to->owner));
    if (!s->to->group || !s->to->owner)
        return OPM_ENOMEM;
    rc = correlated_find(&s->launches, s->st, CORRELATED_HOST, CORRELATED_LAST);
    for (size_t row = 0; row < s->to->nspan && rc == 0; row++) {
        s->to->group[row] = GROUP_NONE;
        if (!s->orphan[s->site[row]])
            continue;
        s->to->group[row] = group_of(s, row);
        if (s->to->group[row] == GROUP_NONE && !s->holds[s->site[row]])
            rc = OPM_ENOMEM;
    }
    return rc;
}

int attribution_find(struct attribution *a, const struct store *st)
{
    struct search s = {
        .to = a, .st = st, .site = store_span_site(st), .nop = store_nrow(st, TABLE_op)
    };
    const void *parent = NULL, *correlation = NULL;
    bool any = false;
    int rc;

    *a = (struct attribution){ 0 };
    rc = find_orphans(&s, &any);
    if (rc == 0 && any &&
        (store_column(st, TABLE_span, span_col_parent, &parent) < 0 ||
         store_column(st, TABLE_span, span_col_correlation, &correlation) < 0))
        rc = OPM_ENOMEM;
    s.parent = parent;
    s.correlation = correlation;
    if (rc == 0 && any)
        rc = attribute(&s);
    mem_free(s.orphan);
    mem_free(s.holds);
    correlated_release(&s.launches);
    u64map_release(&s.owners);
    return rc;
}

void attribution_release(struct attribution *a)
{
    if (a->group)
        mem_unmap(a->group, a->nspan * sizeof(*a->group));
    mem_free(a->owner);
    *a = (struct attribution){ 0 };
}
